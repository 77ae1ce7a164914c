package agui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/schemas"
)

// runInput is the part of a client's request that is used.
type runInput struct {
	ThreadID        string         `json:"threadId"`
	RunID           string         `json:"runId"`
	ProtocolVersion string         `json:"protocolVersion"`
	Messages        []inputMessage `json:"messages"`
	Tools           []frontendTool `json:"tools"`
	Resume          []resume       `json:"resume"`
}

type inputMessage struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"toolCallId"`
	Error      string          `json:"error"`
}

type frontendTool struct {
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
}

type resume struct {
	InterruptID string `json:"interruptId"`
	Status      string `json:"status"`
	Payload     struct {
		Approved *bool           `json:"approved"`
		Reason   string          `json:"reason"`
		Edited   json.RawMessage `json:"editedArgs"` // replaces all arguments of the call; missing or null keeps them
	} `json:"payload"`
}

// edited returns the arguments that replace the call's own, nil if there are none.
func (a resume) edited() json.RawMessage {
	if string(a.Payload.Edited) == "null" {
		return nil
	}
	return a.Payload.Edited
}

// check returns what is wrong with an answer, independent of the call.
func (a resume) check() error {
	wrong := ""
	switch approved := a.Payload.Approved; {
	case a.Status == "cancelled":
	case a.Status != "resolved":
		wrong = fmt.Sprintf("its status %.40q is not resolved or cancelled", a.Status)
	case approved == nil:
		wrong = "its payload has no approved, true or false"
	case a.edited() != nil && !*approved:
		wrong = "its payload has editedArgs, and denies the call, of which nothing is executed"
	case a.edited() != nil && a.edited()[0] != '{':
		wrong = "its editedArgs are no object"
	}
	if wrong == "" {
		return nil
	}
	return &bridge.RequestError{Reason: fmt.Sprintf("resume of %.80q: %s", a.InterruptID, wrong)}
}

// interruptID consists of the call and, if the request has one, its digest.
func interruptID(asked *schemas.ApprovalRequested) string {
	if asked.Digest == "" {
		return string(asked.Call)
	}
	return string(asked.Call) + "/" + asked.Digest
}

// asked returns the request that the answer refers to, as far as the answer names it.
func (a resume) asked() schemas.ApprovalRequested {
	call, digest, _ := strings.Cut(a.InterruptID, "/")
	return schemas.ApprovalRequested{Call: schemas.CallKey(call), Digest: digest}
}

// answer returns the command for the answer.
func (a resume) answer() schemas.CommandData {
	asked := a.asked()
	call := asked.Answer(a.Payload.Reason)
	switch {
	case a.Status == "cancelled":
		call.Reason = cmp.Or(call.Reason, "the client has cancelled it")
		return &schemas.Deny{ApprovalAnswer: call}
	case *a.Payload.Approved:
		return &schemas.Approve{ApprovalAnswer: call, Args: a.edited()}
	}
	return &schemas.Deny{ApprovalAnswer: call}
}

// modern reports whether the client uses version 1.0 or later, which send their version.
func (in *runInput) modern() bool { return in.ProtocolVersion != "" }

// part is one part of a content list.
type part struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Source struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		MimeType string `json:"mimeType"`
	} `json:"source"`
}

// contents decodes a message's content: a text, or parts of text and inline images.
func (m inputMessage) contents() (c schemas.Contents, err error) {
	var text string
	if json.Unmarshal(m.Content, &text) == nil {
		return schemas.Contents{schemas.Text{Text: text}}, nil
	}
	var parts []part
	if err := json.Unmarshal(m.Content, &parts); err != nil {
		return nil, &bridge.RequestError{Reason: fmt.Sprintf("message %.80q: its content is neither text nor parts", m.ID)}
	}
	for _, p := range parts {
		switch {
		case p.Type == "text":
			c = append(c, schemas.Text{Text: p.Text})
		case p.Type == "image" && p.Source.Type == "data":
			c = append(c, schemas.Image{Data: p.Source.Value, MimeType: p.Source.MimeType})
		default:
			return nil, &bridge.RequestError{Reason: fmt.Sprintf("message %.80q: a part of type %.40q, source %.40q is not "+
				"taken: text, or an image with its data", m.ID, p.Type, p.Source.Type)}
		}
	}
	return c, nil
}

// news returns the user messages after all messages that the log knows and after the last one that is not the user's.
func (in *runInput) news(known func(id string) bool) (messages schemas.Messages, err error) {
	first := 0
	for i, m := range in.Messages {
		if m.Role != "user" || known(m.ID) {
			first = i + 1
		}
	}
	for _, m := range in.Messages[first:] {
		c, err := m.contents()
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(c.JoinText()) != "" || len(c) > 1 || len(c) == 1 && c[0].ContentType() != schemas.ContentText {
			messages = append(messages, &schemas.UserMessage{Content: c})
		}
	}
	return messages, nil
}

// results returns the tool messages by the id of their call.
func (in *runInput) results() map[string]inputMessage {
	results := map[string]inputMessage{}
	for _, m := range in.Messages {
		if m.Role == "tool" && m.ToolCallID != "" {
			results[m.ToolCallID] = m
		}
	}
	return results
}
