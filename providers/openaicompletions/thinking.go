package openaicompletions

import (
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// ThinkingFormat is the form in which a server gets the thinking level.
type ThinkingFormat string

// The formats. A server gets the members named; those in brackets only if the session asks for a level.
const (
	ThinkingOpenAI           ThinkingFormat = "openai"             // (reasoning_effort)
	ThinkingOpenRouter       ThinkingFormat = "openrouter"         // reasoning.effort
	ThinkingDeepSeek         ThinkingFormat = "deepseek"           // thinking.type, (reasoning_effort)
	ThinkingZai              ThinkingFormat = "zai"                // enable_thinking
	ThinkingQwen             ThinkingFormat = "qwen"               // enable_thinking
	ThinkingQwenChatTemplate ThinkingFormat = "qwen-chat-template" // chat_template_kwargs
)

// thinking are the members of a request that are about it.
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

// newThinking returns the members for a level, which is empty if the session asks for none.
func newThinking(m *providers.Model, c *Compat, level schemas.ThinkingLevel) (t thinking) {
	if !m.Reasoning {
		return thinking{}
	}
	asked := level != ""
	name := ""
	if asked {
		name = m.LevelName(level)
	}
	switch c.ThinkingFormat {
	case ThinkingZai, ThinkingQwen:
		t.EnableThinking = &asked
	case ThinkingQwenChatTemplate:
		t.ChatTemplateKwargs = &templateKwargs{EnableThinking: asked, PreserveThinking: true}
	case ThinkingDeepSeek:
		t.Thinking = &thinkingType{Type: "disabled"}
		if asked {
			t.Thinking.Type, t.ReasoningEffort = "enabled", name
		}
	case ThinkingOpenRouter:
		if !asked {
			name = offName(m, "none")
		}
		if name != "" {
			t.Reasoning = &effort{Effort: name}
		}
	default:
		if !asked {
			name = offName(m, "")
		}
		if c.SupportsReasoningEffort {
			t.ReasoningEffort = name
		}
	}
	return t
}

// offName returns what the catalogue says to send for no thinking, nothing if it says that there is no such thing, and
// unlisted if it does not say.
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

// levelOf returns the level to ask for, empty for none.
func levelOf(req *providers.Request) (schemas.ThinkingLevel, error) {
	var vendor struct {
		ReasoningEffort schemas.ThinkingLevel `json:"reasoningEffort"`
	}
	if req.Direct {
		err := req.DecodeVendor(&vendor)
		return vendor.ReasoningEffort, err
	}
	level, asked := req.Level()
	if !asked || level == schemas.ThinkingOff {
		return "", nil
	}
	return level, nil
}
