package compare

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// A family replaces the session ids of a conversation's sub-agents by names, in the order in which the conversation
// mentions them. The zero value has no sub-agents.
type family struct {
	ids   *regexp.Regexp
	names map[string]string
}

// families are the families of two conversations. One may be a copy of the other and mention its sub-agents.
func families(a, b *Conversation) (ofA, ofB *family) {
	all := slices.Concat(a.children, b.children)
	if len(all) == 0 {
		return new(family), new(family)
	}
	for i, id := range all {
		all[i] = regexp.QuoteMeta(id)
	}
	ids := regexp.MustCompile(`\b(?:` + strings.Join(all, "|") + `)\b`)
	return &family{ids, map[string]string{}}, &family{ids, map[string]string{}}
}

func (f *family) named(text string) string {
	if f.ids == nil {
		return text
	}
	return f.ids.ReplaceAllStringFunc(text, func(id string) string {
		if f.names[id] == "" {
			f.names[id] = fmt.Sprintf("sub-agent %d", len(f.names)+1)
		}
		return f.names[id]
	})
}

// saidIn returns the part of a message that is compared. It must be called for the messages in order.
func (f *family) saidIn(m schemas.Message) said {
	s := saidIn(m)
	s.Text, s.Other = f.named(s.Text), f.named(s.Other)
	for i, call := range s.Calls {
		s.Calls[i] = f.named(call)
	}
	return s
}
