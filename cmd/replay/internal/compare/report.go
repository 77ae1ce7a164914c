package compare

import "github.com/loopbus/loopbus/schemas"

// A Report is a comparison for other programs.
type Report struct {
	Same   bool   `json:"same"`
	Common int    `json:"common"`
	What   string `json:"what,omitempty"`
	A      Side   `json:"a"`
	B      Side   `json:"b"`
}

// A Side is one of the sessions, and what it has taken since they part, or in all where they do not. ID and Seq are of
// its first message that the other does not have, empty where there is none.
type Side struct {
	Session  string                 `json:"session"`
	Parent   *schemas.SessionParent `json:"parent,omitempty"`
	Messages int                    `json:"messages"`
	ID       string                 `json:"id,omitempty"`
	Seq      uint64                 `json:"seq,omitempty"`
	Totals
}

// ReportOf reports a difference of two conversations.
func ReportOf(both [2]*Conversation, d Difference) Report {
	r := Report{Same: d.Same(), Common: d.Common, What: d.What}
	since := d.Common
	if d.Same() {
		since = 0
	}
	for i, side := range []*Side{&r.A, &r.B} {
		c := both[i]
		*side = Side{Session: c.Session, Parent: c.Parent, Messages: len(c.Items), Totals: c.Since(since)}
		side.Models = append([]string{}, side.Models...) // a list also where there are none
		if !d.Same() && d.Common < len(c.Items) {
			side.ID, side.Seq = c.Items[d.Common].ID, c.Items[d.Common].Start
		}
	}
	return r
}
