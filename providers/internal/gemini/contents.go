package gemini

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

const (
	textImage = "Tool result image:"
	maxID     = 64 // bytes of a tool call's id that the vendors accept
)

// contents returns the conversation in the form of a request.
func contents(req *providers.Request) []*content {
	w := writer{model: req.Model, withIDs: withIDs(req.Model.ID), nested: nestsImages(req.Model.ID), out: []*content{}}
	rule := func(id string, _ *schemas.AssistantMessage) string {
		if w.withIDs {
			return providers.CleanID(id, maxID)
		}
		return id
	}
	for _, m := range providers.Transform(req.Messages, req.Model, rule) {
		switch m := m.(type) {
		case *schemas.UserMessage:
			w.add("user", parts(m.Content))
		case *schemas.AssistantMessage:
			w.add("model", w.reply(m))
		case *schemas.ToolResultMessage:
			w.result(m)
		}
	}
	return w.out
}

// withIDs reports whether requests to the model contain the ids of tool calls. The models of other vendors need them.
func withIDs(id string) bool {
	return strings.HasPrefix(id, "claude-") || strings.HasPrefix(id, "gpt-oss-")
}

var geminiVersion = regexp.MustCompile(`^gemini(?:-live)?-(\d+)`)

// nestsImages reports whether the model accepts images within a function response. Geminis before version 3 do not.
func nestsImages(id string) bool {
	v := geminiVersion.FindStringSubmatch(strings.ToLower(id))
	if v == nil {
		return true
	}
	n, err := strconv.Atoi(v[1])
	return err != nil || n >= 3
}

// writer converts the messages of a conversation to contents.
type writer struct {
	model   *providers.Model
	withIDs bool // send the ids of tool calls
	nested  bool // send images within function responses
	out     []*content
}

// add appends a content with these parts, unless there are none.
func (w *writer) add(role string, parts []*part) {
	if len(parts) > 0 {
		w.out = append(w.out, &content{Role: role, Parts: parts})
	}
}

func parts(blocks schemas.Contents) (list []*part) {
	for _, block := range blocks {
		switch b := block.(type) {
		case schemas.Text:
			list = append(list, &part{Text: &b.Text})
		case schemas.Image:
			list = append(list, imagePart(b))
		}
	}
	return list
}

func imagePart(b schemas.Image) *part {
	return &part{InlineData: &inlineData{MimeType: b.MimeType, Data: b.Data}}
}

// reply returns the parts of a reply. Only the model that made a signature can use it, so another model's signatures
// are omitted and its thinking is sent as text.
func (w *writer) reply(m *schemas.AssistantMessage) (list []*part) {
	own := m.Provider == w.model.Provider && m.Model == w.model.ID
	for _, block := range m.Content {
		switch b := block.(type) {
		case schemas.Text:
			if strings.TrimSpace(b.Text) != "" {
				list = append(list, &part{Text: &b.Text, ThoughtSignature: signature(own, b.TextSignature)})
			}
		case schemas.Thinking:
			if strings.TrimSpace(b.Thinking) == "" {
				continue
			}
			p := &part{Text: &b.Thinking}
			if own {
				p.Thought, p.ThoughtSignature = true, signature(own, b.ThinkingSignature)
			}
			list = append(list, p)
		case schemas.ToolCall:
			call := &functionCall{Name: b.Name, Args: providers.ObjectOf(b.Arguments)}
			if w.withIDs {
				call.ID = b.ID
			}
			list = append(list, &part{FunctionCall: call, ThoughtSignature: signature(own, b.ThoughtSignature)})
		}
	}
	return list
}

var base64RE = regexp.MustCompile(`^[A-Za-z0-9+/]+={0,2}$`)

// signature returns s if this model made it and it is base64, as the vendor requires, or else "".
func signature(own bool, s string) string {
	if !own || len(s)%4 != 0 || !base64RE.MatchString(s) {
		return ""
	}
	return s
}

// result adds a tool result. Consecutive results share one content.
func (w *writer) result(m *schemas.ToolResultMessage) {
	text, images := chat.Lines(m.Content), chat.Images(m.Content)
	if text == "" && len(images) > 0 {
		text = providers.TextSeeImage
	}
	key := "output"
	if m.IsError {
		key = "error"
	}
	response := &functionResponse{Name: m.ToolName, Response: map[string]string{key: text}}
	if w.withIDs {
		response.ID = m.ToolCallID
	}
	var shown []*part
	for _, image := range images {
		shown = append(shown, imagePart(image))
	}
	if w.nested {
		response.Parts = shown
	}
	if last := len(w.out) - 1; last >= 0 && w.out[last].hasResponse() {
		w.out[last].Parts = append(w.out[last].Parts, &part{FunctionResponse: response})
	} else {
		w.add("user", []*part{{FunctionResponse: response}})
	}
	if len(shown) > 0 && !w.nested {
		line := textImage
		w.add("user", append([]*part{{Text: &line}}, shown...))
	}
}

// hasResponse reports whether the content is a user's and contains a function response.
func (c *content) hasResponse() bool {
	for _, p := range c.Parts {
		if p.FunctionResponse != nil {
			return c.Role == "user"
		}
	}
	return false
}
