package openaicompletions

import (
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/chat"
)

// addCaching adds the options for caching the beginning of the conversation.
func (b *body) addCaching(req *providers.Request, c *Compat) {
	retention := req.Retention()
	long := retention == providers.CacheLong && c.SupportsLongCacheRetention
	if long || retention != providers.CacheNone && isAt(req.Model, "api.openai.com") {
		b.PromptCacheKey = req.SessionID
	}
	if long {
		b.PromptCacheRetention = "24h"
	}
	if c.CacheControlFormat == cacheAnthropic && retention != providers.CacheNone {
		mark := &cacheControl{Type: "ephemeral"}
		if long {
			mark.TTL = "1h"
		}
		b.mark(mark)
	}
}

// cacheControl is Anthropic's mark of a cache point: the vendor caches everything up to and including the marked part.
type cacheControl struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// mark marks the system prompt, the last tool and the end of the conversation.
func (b *body) mark(mark *cacheControl) {
	for _, m := range b.Messages {
		if m.Role == roleSystem || m.Role == roleDeveloper {
			m.mark(mark)
			break
		}
	}
	if n := len(b.Tools); n > 0 {
		b.Tools[n-1].CacheControl = mark
	}
	for i := len(b.Messages) - 1; i >= 0; i-- {
		if m := b.Messages[i]; (m.Role == roleUser || m.Role == roleAssistant) && m.mark(mark) {
			break
		}
	}
}

// mark marks the last text of the message and reports whether there is one.
func (m *message) mark(mark *cacheControl) bool {
	switch content := m.Content.(type) {
	case string:
		if content == "" {
			return false
		}
		part := chat.NewTextPart(content)
		part.CacheControl = mark
		m.Content = []any{part}
		return true
	case []any:
		for i := len(content) - 1; i >= 0; i-- {
			if part, ok := content[i].(*chat.TextPart); ok {
				part.CacheControl = mark
				return true
			}
		}
	}
	return false
}
