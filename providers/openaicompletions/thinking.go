package openaicompletions

import (
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// ThinkingFormat is the form in which a server expects the thinking level.
type ThinkingFormat string

// The formats, with the members that are sent. Those in brackets are sent only if the session requests a level.
const (
	ThinkingOpenAI           ThinkingFormat = "openai"             // (reasoning_effort)
	ThinkingOpenRouter       ThinkingFormat = "openrouter"         // reasoning.effort
	ThinkingDeepSeek         ThinkingFormat = "deepseek"           // thinking.type, (reasoning_effort)
	ThinkingZai              ThinkingFormat = "zai"                // enable_thinking
	ThinkingQwen             ThinkingFormat = "qwen"               // enable_thinking
	ThinkingQwenChatTemplate ThinkingFormat = "qwen-chat-template" // chat_template_kwargs
)

// thinking holds the members of a request for thinking.
type thinking struct {
	ReasoningEffort    string          `json:"reasoning_effort,omitempty"`
	Reasoning          *effort         `json:"reasoning,omitempty"`
	Thinking           *thinkingType   `json:"thinking,omitempty"`
	EnableThinking     *bool           `json:"enable_thinking,omitempty"`
	ChatTemplateKwargs *templateKwargs `json:"chat_template_kwargs,omitempty"`
}

type effort struct {
	Effort string `json:"effort"`
}

type thinkingType struct {
	Type string `json:"type"`
}

type templateKwargs struct {
	EnableThinking   bool `json:"enable_thinking"`
	PreserveThinking bool `json:"preserve_thinking"`
}

// newThinking returns the members for a level, which is empty if the session requests none.
func newThinking(m *providers.Model, c *Compat, level schemas.ThinkingLevel) (t thinking) {
	if !m.Reasoning {
		return thinking{}
	}
	requested := level != ""
	name := ""
	if requested {
		name = m.LevelName(level)
	}
	switch c.ThinkingFormat {
	case ThinkingZai, ThinkingQwen:
		t.EnableThinking = &requested
	case ThinkingQwenChatTemplate:
		t.ChatTemplateKwargs = &templateKwargs{EnableThinking: requested, PreserveThinking: true}
	case ThinkingDeepSeek:
		t.Thinking = &thinkingType{Type: "disabled"}
		if requested {
			t.Thinking.Type, t.ReasoningEffort = "enabled", name
		}
	case ThinkingOpenRouter:
		if !requested {
			name = offName(m, "none")
		}
		if name != "" {
			t.Reasoning = &effort{Effort: name}
		}
	default:
		if !requested {
			name = offName(m, "")
		}
		if c.SupportsReasoningEffort {
			t.ReasoningEffort = name
		}
	}
	return t
}

// offName returns the catalogue's name of the level off, "" if the catalogue lists the level as unsupported, or
// unlisted if it does not list the level.
func offName(m *providers.Model, unlisted string) string {
	name, listed := m.ThinkingLevels[schemas.ThinkingOff]
	switch {
	case !listed:
		return unlisted
	case name == nil:
		return ""
	}
	return *name
}

// levelOf returns the level to request, or "" for none.
func levelOf(req *providers.Request) (schemas.ThinkingLevel, error) {
	var vendor struct {
		ReasoningEffort schemas.ThinkingLevel `json:"reasoningEffort"`
	}
	if req.Direct {
		err := req.DecodeVendor(&vendor)
		return vendor.ReasoningEffort, err
	}
	level, requested := req.Level()
	if !requested || level == schemas.ThinkingOff {
		return "", nil
	}
	return level, nil
}
