package compare

import "github.com/loopbus/loopbus/schemas"

// A Report is the result of a comparison as JSON.
type Report struct {
	Same   bool   `json:"same"`
	Common int    `json:"common"`
	What   string `json:"what,omitempty"`
	A      Side   `json:"a"`
	B      Side   `json:"b"`
}

// A Side is one of the sessions with its totals since they diverge, or all of them if the sessions are equal. ID and
// Seq are those of its first message that the other session does not have, empty if there is none.
type Side struct {
	Session  string                 `json:"session"`
	Parent   *schemas.SessionParent `json:"parent,omitempty"`
	Messages int                    `json:"messages"`
	ID       string                 `json:"id,omitempty"`
	Seq      uint64                 `json:"seq,omitempty"`
	Totals
}

// ReportOf returns the report of a difference between two conversations.
func ReportOf(both [2]*Conversation, d Difference) Report {
	r := Report{Same: d.Same(), Common: d.Common, What: d.What}
	since := d.Common
	if d.Same() {
		since = 0
	}
	for i, side := range []*Side{&r.A, &r.B} {
		c := both[i]
		*side = Side{Session: c.Session, Parent: c.Parent, Messages: len(c.Items), Totals: c.Since(since)}
		side.Models = append([]string{}, side.Models...) // not nil, so that JSON has a list
		if !d.Same() && d.Common < len(c.Items) {
			side.ID, side.Seq = c.Items[d.Common].ID, c.Items[d.Common].Start
		}
	}
	return r
}
