package compaction

import (
	"unicode/utf8"

	"github.com/loopbus/loopbus/schemas"
)

const (
	charsPerToken = 4
	imageChars    = 4800
)

// EstimateTokens returns a message's estimated size: a quarter of its UTF-16 units, rounded up. Images of results and
// custom messages count as 1200 tokens, those of users as nothing. A message of an unknown role has no size.
func EstimateTokens(m schemas.Message) int64 {
	chars := 0
	switch m := m.(type) {
	case *schemas.UserMessage:
		chars = contentChars(m.Content, 0)
	case *schemas.AssistantMessage:
		chars = contentChars(m.Content, 0)
	case *schemas.ToolResultMessage:
		chars = contentChars(m.Content, imageChars)
	case *schemas.CustomMessage:
		chars = customChars(m)
	}
	return int64(chars+charsPerToken-1) / charsPerToken
}

func contentChars(contents schemas.Contents, image int) (n int) {
	for _, c := range contents {
		switch c := c.(type) {
		case schemas.Text:
			n += units(c.Text)
		case schemas.Thinking:
			n += units(c.Thinking)
		case schemas.ToolCall:
			n += units(c.Name) + units(compactJSON(c.Arguments))
		case schemas.Image:
			n += image
		}
	}
	return n
}

func customChars(m *schemas.CustomMessage) int {
	f := fieldsOf(m)
	switch m.Role {
	case RoleCustom:
		return contentChars(f.contents(), imageChars)
	case RoleBashExecution:
		return units(f.Command) + units(f.Output)
	case RoleBranchSummary, RoleCompactionSummary:
		return units(f.Summary)
	}
	return 0
}

// units counts UTF-16 units.
func units(s string) (n int) {
	for _, r := range s {
		n += unitsOf(r)
	}
	return n
}

func unitsOf(r rune) int {
	if r > 0xFFFF && r <= utf8.MaxRune {
		return 2
	}
	return 1
}

// UsageTokens returns the size of the context after a reply with this usage.
func UsageTokens(u schemas.Usage) int64 {
	if u.TotalTokens != 0 {
		return u.TotalTokens
	}
	return min(u.Input+u.Output+u.CacheRead+u.CacheWrite, schemas.MaxInteger)
}

// A ContextEstimate is the estimated size of a context in tokens: what the last reply reported, and the estimates of
// the messages after it. LastUsageIndex is the index of that reply, -1 if none reports its usage.
type ContextEstimate struct {
	Tokens         int64 `json:"tokens"`
	UsageTokens    int64 `json:"usageTokens"`
	TrailingTokens int64 `json:"trailingTokens"`
	LastUsageIndex int   `json:"lastUsageIndex"`
}

// EstimateContext estimates the size of a context.
func EstimateContext(messages []schemas.Message) ContextEstimate {
	return EstimateContextSince(messages, 0)
}

// EstimateContextSince estimates the size of a context, using the usage of replies at index from and later only:
// replies that a compaction has kept report the size of the context before it.
func EstimateContextSince(messages []schemas.Message, from int) ContextEstimate {
	e := ContextEstimate{LastUsageIndex: -1}
	for i := len(messages) - 1; i >= 0; i-- {
		if u, ok := usageOf(messages[i]); ok && i >= from {
			e.UsageTokens, e.LastUsageIndex = UsageTokens(u), i
			break
		}
		e.TrailingTokens += EstimateTokens(messages[i])
	}
	e.Tokens = min(e.UsageTokens+e.TrailingTokens, schemas.MaxInteger) // a model server may report any usage
	return e
}

// LastUsage returns the usage of the last reply among the entries that reports it and has not failed.
func LastUsage(entries []Entry) (schemas.Usage, bool) {
	for i := len(entries) - 1; i >= 0; i-- {
		if entries[i].Kind == KindMessage {
			if u, ok := usageOf(entries[i].Message); ok {
				return u, true
			}
		}
	}
	return schemas.Usage{}, false
}

func usageOf(m schemas.Message) (schemas.Usage, bool) {
	a, ok := m.(*schemas.AssistantMessage)
	if !ok || a.Failed() || a.Usage == (schemas.Usage{}) {
		return schemas.Usage{}, false
	}
	return a.Usage, true
}
