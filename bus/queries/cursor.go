package queries

import (
	"encoding/base64"
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/bus/queries/index"
)

// cursor is the position of the next page of a list. Clients return it unchanged.
//
// The first pages of sessions show the list as it was at revision Since, in its order, after Place. They omit the
// sessions that have changed since then, because those may have moved to pages already sent. The changed sessions
// follow at the end, in the order of their changes, after revision Changed. So a client that reads to the end misses
// no session, and sees a session twice only if it changed in the meantime.
type cursor struct {
	Since   uint64      `json:"r"`
	Place   index.Place `json:"p,omitzero"`
	Changed uint64      `json:"c,omitempty"`
	Offset  int         `json:"o,omitempty"` // of short lists
	Leaf    string      `json:"l,omitempty"` // leaf of the tree, at event Changed
	Before  string      `json:"b,omitempty"`
}

func (c cursor) encode() string {
	raw, _ := json.Marshal(c) // numbers and strings can always be encoded
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
		return cursor{}, invalid("the cursor is not one of a previous answer")
	}
	return c, nil
}

// after returns the entries after a place.
func after(entries []*index.Entry, place index.Place) []*index.Entry {
	n, found := slices.BinarySearchFunc(entries, place, func(e *index.Entry, p index.Place) int {
		return e.Place().Compare(p)
	})
	if found {
		n++
	}
	return entries[n:]
}
