package responses

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// maxItemID is the longest id of an item that the vendor accepts, in bytes.
const maxItemID = 64

type message struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

type inputText struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type inputImage struct {
	Type     string `json:"type"`
	Detail   string `json:"detail"`
	ImageURL string `json:"image_url"`
}

type outputMessage struct {
	Type    string       `json:"type"`
	Role    string       `json:"role"`
	Content []outputText `json:"content"`
	Status  string       `json:"status"`
	ID      string       `json:"id"`
	Phase   string       `json:"phase,omitempty"`
}

type outputText struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	Annotations []any  `json:"annotations"`
}

type functionCall struct {
	Type      string `json:"type"`
	ID        string `json:"id,omitempty"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

type functionOutput struct {
	Type   string `json:"type"`
	CallID string `json:"call_id"`
	Output any    `json:"output"`
}

// textSignature is the signature of a text block. It keeps the id and phase of the block's item.
type textSignature struct {
	V     int    `json:"v"`
	ID    string `json:"id"`
	Phase string `json:"phase,omitempty"`
}

// input returns the conversation as items.
func input(req *providers.Request, known []string) []any {
	items := []any{}
	if system := req.System(); system != "" {
		role := "system"
		if req.Model.Reasoning {
			role = "developer"
		}
		items = append(items, message{role, system})
	}
	for i, m := range providers.Transform(req.Messages, req.Model, idRule(req.Model, known)) {
		switch m := m.(type) {
		case *schemas.UserMessage:
			if parts := parts(m.Content); len(parts) > 0 {
				items = append(items, message{"user", parts})
			}
		case *schemas.AssistantMessage:
			items = append(items, reply(req.Model, m, i)...)
		case *schemas.ToolResultMessage:
			call, _, _ := strings.Cut(m.ToolCallID, "|")
			items = append(items, functionOutput{"function_call_output", call, output(m.Content)})
		}
	}
	return items
}

func parts(content schemas.Contents) (list []any) {
	for _, block := range content {
		switch b := block.(type) {
		case schemas.Text:
			list = append(list, inputText{"input_text", b.Text})
		case schemas.Image:
			list = append(list, inputImage{"input_image", "auto", chat.DataURL(b)})
		}
	}
	return list
}

// output returns the content of a tool result: its text, or a list of parts if it has images.
func output(content schemas.Contents) any {
	text, images := chat.Lines(content), chat.Images(content)
	if len(images) == 0 {
		if text == "" {
			return providers.TextNoOutput
		}
		return text
	}
	var list []any
	if text != "" {
		list = append(list, inputText{"input_text", text})
	}
	for _, image := range images {
		list = append(list, inputImage{"input_image", "auto", chat.DataURL(image)})
	}
	return list
}

// reply returns the items of a reply, the nth message of the conversation.
func reply(target *providers.Model, m *schemas.AssistantMessage, n int) (items []any) {
	sibling := !target.Wrote(m) && m.Provider == target.Provider && m.API == target.API
	for _, block := range m.Content {
		switch b := block.(type) {
		case schemas.Thinking:
			if isReasoning(b.ThinkingSignature) {
				items = append(items, json.RawMessage(b.ThinkingSignature))
			}
		case schemas.Text:
			id, phase := itemOf(b.TextSignature, n)
			items = append(items, outputMessage{
				Type: "message", Role: "assistant", Status: "completed", ID: id, Phase: phase,
				Content: []outputText{{"output_text", b.Text, []any{}}},
			})
		case schemas.ToolCall:
			call, item, _ := strings.Cut(b.ID, "|")
			if sibling && strings.HasPrefix(item, "fc_") { // it belongs to a reasoning item that this model never saw
				item = ""
			}
			items = append(items, functionCall{"function_call", item, call, b.Name, arguments(b)})
		}
	}
	return items
}

func arguments(call schemas.ToolCall) string {
	if len(call.Arguments) == 0 {
		return "{}"
	}
	return string(call.Arguments)
}

// itemOf returns the id and phase of a text block's item from its signature. Without a signature, the id is made of n,
// the index of the message.
func itemOf(signature string, n int) (id, phase string) {
	var s textSignature
	if strings.HasPrefix(signature, "{") && json.Unmarshal([]byte(signature), &s) == nil && s.V == 1 && s.ID != "" {
		id, phase = s.ID, s.Phase
	} else {
		id = signature
	}
	switch {
	case id == "":
		id = fmt.Sprintf("msg_%d", n)
	case len(id) > maxItemID:
		id = "msg_" + providers.ShortHash(id)
	}
	return id, phase
}
