package compare

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/schemas"
)

// A family names the sub-agents of a conversation in the order in which it mentions them, in place of the ids of their
// sessions. Its zero value knows none.
type family struct {
	ids   *regexp.Regexp
	names map[string]string
}

// families are those of two conversations. Either may mention the sub-agents of the other, of which it is a copy.
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

// saidIn is what counts of a message of the conversation. Messages are to come in order.
func (f *family) saidIn(m schemas.Message) said {
	s := saidIn(m)
	s.Text, s.Other = f.named(s.Text), f.named(s.Other)
	for i, call := range s.Calls {
		s.Calls[i] = f.named(call)
	}
	return s
}
