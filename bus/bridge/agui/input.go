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
	if err := bridge.CheckID("interruptId", a.InterruptID); err != nil {
		return err
	}
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

// userInput is a message of the user, with the id of a prompt that has it as its last message.
type userInput struct {
	command string
	message *schemas.UserMessage
}

// tail returns the user messages after all messages that the log has and after the last reply. The results of the
// client's tools may be anywhere among them.
func (in *runInput) tail(logged func(id string) bool) (tail []userInput, err error) {
	first := 0
	for i, m := range in.Messages {
		if m.Role == "assistant" || logged(m.ID) {
			first = i + 1
		}
	}
	for _, m := range in.Messages[first:] {
		if m.Role != "user" {
			continue
		}
		c, err := m.contents()
		if err != nil {
			return nil, err
		}
		if strings.TrimSpace(c.JoinText()) != "" || len(c) > 1 || len(c) == 1 && c[0].ContentType() != schemas.ContentText {
			tail = append(tail, userInput{in.commandOf(m.ID, c), &schemas.UserMessage{Content: c}})
		}
	}
	return tail, nil
}

// commandOf returns the id of a message's prompt. The content is part of it, because some clients number their messages
// anew for each page. A message without an id is another one in each run.
func (in *runInput) commandOf(id string, c schemas.Contents) string {
	content, _ := schemas.Marshal(c) // what was decoded can be encoded
	if id == "" {
		id = "\nof run " + in.RunID
	}
	return bridge.CommandID("ag-ui message\n" + id + "\n" + string(content)) // a hash, because of the line breaks
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
