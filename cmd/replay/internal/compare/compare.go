package compare

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/loopbus/loopbus/schemas"
)

// A Difference is where two conversations diverge: after Common equal messages. What describes how the next message
// differs; it is "" if the conversations are equal.
type Difference struct {
	Common int
	What   string
}

// Same reports whether the conversations are equal.
func (d Difference) Same() bool { return d.What == "" }

// Compare finds where two conversations diverge. It ignores compactions, which change what a model receives but not
// what was said, and the ids of sub-agents' sessions, which differ each time. If one session was branched from the
// other after a compaction, Compare changes the items of the other to those that were copied and the later ones; so a
// caller must read the items after the call.
func Compare(a, b *Conversation) Difference {
	asCopied(a, b)
	asCopied(b, a)
	for _, c := range []*Conversation{a, b} {
		c.Items = slices.DeleteFunc(c.Items, func(i Item) bool { return i.compaction && i.Seq > c.Items[0].Seq })
	}
	common := 0
	nameA, nameB := families(a, b)
	for common < min(len(a.Items), len(b.Items)) {
		if what := differs(nameA.saidIn(a.Items[common].Message), nameB.saidIn(b.Items[common].Message)); what != "" {
			return Difference{common, what}
		}
		common++
	}
	switch {
	case len(a.Items) > common:
		return Difference{common, b.Session + " ends"}
	case len(b.Items) > common:
		return Difference{common, a.Session + " ends"}
	}
	return Difference{Common: common}
}

// asCopied gives a session the same start as its branch if the branch starts with the summary of a compaction: the
// summary and the entries that the compaction has kept.
func asCopied(of, branch *Conversation) {
	if branch.Parent == nil || branch.Parent.Session != of.Session {
		return
	}
	if len(branch.Items) == 0 || !branch.Items[0].compaction {
		return
	}
	at := -1
	for i, item := range of.Items {
		if item.compaction && item.Seq <= branch.Parent.Seq {
			at = i
		}
	}
	if at < 0 {
		return
	}
	items := []Item{of.Items[at]}
	keeps := false
	for i, item := range of.Items {
		if keeps = keeps || item.ID == of.Items[at].kept || i > at; keeps && i != at && (i > at || !item.compaction) {
			items = append(items, item)
		}
	}
	of.Items = items
}

// differs describes how two messages differ; "" if they are equal.
func differs(x, y said) string {
	switch {
	case x.Role != y.Role:
		return "one is of the " + x.Role + ", the other of the " + y.Role
	case x.Tool != y.Tool:
		return "its tool is another one"
	case x.Text != y.Text:
		return "its text is another one"
	case !slices.Equal(x.Calls, y.Calls):
		return "its calls are others"
	case x.Failure != y.Failure:
		return "it has not failed in the same way"
	case !slices.Equal(x.Images, y.Images):
		return "its pictures are others"
	case x.Other != y.Other:
		return "its content is another one"
	}
	return ""
}

// said is the part of a message that is compared.
type said struct {
	Role, Tool, Text, Failure, Other string
	Calls, Images                    []string
}

func saidIn(m schemas.Message) said {
	s := said{Role: string(m.MessageRole())}
	switch m := m.(type) {
	case *schemas.UserMessage:
		s.contents(m.Content)
	case *schemas.AssistantMessage:
		s.contents(m.Content)
		if m.Failed() {
			s.Failure = string(m.StopReason) + " " + m.ErrorMessage
		}
	case *schemas.ToolResultMessage:
		s.contents(m.Content)
		s.Tool = m.ToolName
		if m.IsError {
			s.Failure = "error"
		}
	case *schemas.CustomMessage:
		s.Other = ofCustom(m.Raw)
	}
	return s
}

func (s *said) contents(list schemas.Contents) {
	s.Text = list.JoinText()
	for _, c := range list {
		switch c := c.(type) {
		case schemas.ToolCall:
			s.Calls = append(s.Calls, c.Name+" "+canonical(c.Arguments))
		case schemas.Image:
			s.Images = append(s.Images, c.MimeType+" "+c.Data)
		}
	}
}

// ofCustom are the compared members of a message of another role.
func ofCustom(raw json.RawMessage) string {
	var all map[string]json.RawMessage
	if json.Unmarshal(raw, &all) != nil {
		return string(raw)
	}
	var text []string
	for _, name := range []string{"customType", "content", "summary"} {
		text = append(text, canonical(all[name]))
	}
	list, err := json.Marshal(text)
	if err != nil {
		return string(raw)
	}
	return string(list)
}

// canonical returns JSON with sorted members; invalid JSON is returned unchanged.
func canonical(raw json.RawMessage) string {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if d.Decode(&v) != nil {
		return string(raw)
	}
	sorted, err := json.Marshal(v)
	if err != nil {
		return string(raw)
	}
	return string(sorted)
}
