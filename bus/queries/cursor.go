package queries

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/bus/queries/index"
)

// cursor says where the next page of a list begins. Clients take it as it is.
//
// The first pages of sessions are the list as it was at the revision Since, in its order, behind Place: without the
// sessions that have changed since then, which may have moved to where pages were given already. Those come at the end,
// in the order of their changes, behind the revision Changed. So a client that reads to the end misses none, and has
// none twice that did not change meanwhile.
type cursor struct {
	Since   uint64      `json:"r"`
	Place   index.Place `json:"p,omitzero"`
	Changed uint64      `json:"c,omitempty"`
	Offset  int         `json:"o,omitempty"` // of lists that are short
	Leaf    string      `json:"l,omitempty"` // of the tree, at the event Changed
	Before  string      `json:"b,omitempty"`
}

func (c cursor) encode() string {
	raw, _ := json.Marshal(c) // numbers and a text always encode
	return base64.RawURLEncoding.EncodeToString(raw)
}

func decodeCursor(s string) (c cursor, err error) {
	if s == "" {
		return cursor{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(s)
	if err == nil {
		err = json.Unmarshal(raw, &c)
	}
	if err != nil || c.Offset < 0 {
		return cursor{}, invalid("the cursor is none of an answer")
	}
	return c, nil
}

// after returns where the list goes on behind a place.
func after(entries []*index.Entry, place index.Place) []*index.Entry {
	n, found := slices.BinarySearchFunc(entries, place, func(e *index.Entry, p index.Place) int {
		return e.Place().Compare(p)
	})
	if found {
		n++
	}
	return entries[n:]
}
