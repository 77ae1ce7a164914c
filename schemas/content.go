package schemas

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// ContentType names a kind of content block.
type ContentType string

// The content blocks of pi.
const (
	ContentText     ContentType = "text"
	ContentThinking ContentType = "thinking"
	ContentImage    ContentType = "image"
	ContentToolCall ContentType = "toolCall"
)

// Content is one block of a message: [Text], [Thinking], [Image] or [ToolCall].
type Content interface {
	ContentType() ContentType
}

// Text is a block of text. TextSignature is an opaque signature of the vendor and is kept byte for byte.
type Text struct {
	Text          string `json:"text"`
	TextSignature string `json:"textSignature,omitempty"`
}

// Thinking is a model's reasoning. ThinkingSignature is an opaque signature of the vendor and is kept byte for byte.
// Redacted is true if the vendor hid the text, so that only the signature counts.
type Thinking struct {
	Thinking          string `json:"thinking"`
	ThinkingSignature string `json:"thinkingSignature,omitempty"`
	Redacted          bool   `json:"redacted,omitempty"`
}

// Image is a picture; Data is its base64 text.
type Image struct {
	Data     string `json:"data"`
	MimeType string `json:"mimeType"`
}

// ToolCall is a model's request to run a tool. Arguments is the JSON exactly as the model wrote it, normally an object:
// validation errors quote it, in the order of its members. ThoughtSignature is kept byte for byte. A call is Incomplete
// if what the model streamed as its arguments is no complete JSON; Arguments is then as much of it as could be read. It
// is not executed: half of a command or of a file's text may do damage.
type ToolCall struct {
	ID               string          `json:"id"`
	Name             string          `json:"name"`
	Arguments        json.RawMessage `json:"arguments"`
	ThoughtSignature string          `json:"thoughtSignature,omitempty"`
	Incomplete       bool            `json:"incomplete,omitempty"`
}

// ContentType returns "text".
func (Text) ContentType() ContentType { return ContentText }

// ContentType returns "thinking".
func (Thinking) ContentType() ContentType { return ContentThinking }

// ContentType returns "image".
func (Image) ContentType() ContentType { return ContentImage }

// ContentType returns "toolCall".
func (ToolCall) ContentType() ContentType { return ContentToolCall }

// MarshalJSON writes the block with its type member first.
func (c Text) MarshalJSON() ([]byte, error) {
	type plain Text
	return marshalTyped("type", string(ContentText), plain(c))
}

// MarshalJSON writes the block with its type member first.
func (c Thinking) MarshalJSON() ([]byte, error) {
	type plain Thinking
	return marshalTyped("type", string(ContentThinking), plain(c))
}

// MarshalJSON writes the block with its type member first.
func (c Image) MarshalJSON() ([]byte, error) {
	type plain Image
	return marshalTyped("type", string(ContentImage), plain(c))
}

// MarshalJSON writes the block with its type member first; missing arguments are an empty object.
func (c ToolCall) MarshalJSON() ([]byte, error) {
	type plain ToolCall
	if len(c.Arguments) == 0 {
		c.Arguments = json.RawMessage("{}")
	}
	return marshalTyped("type", string(ContentToolCall), plain(c))
}

// Contents is a list of blocks that decodes from JSON. A nil list encodes as [].
type Contents []Content

// MarshalJSON never writes null: pi's readers iterate over content without a check.
func (cs Contents) MarshalJSON() ([]byte, error) {
	if cs == nil {
		return []byte("[]"), nil
	}
	return marshalPlain([]Content(cs))
}

// UnmarshalJSON decodes a list of blocks, or the plain string that pi allows as a user's content. A block of an unknown
// type gives an [UnknownTypeError].
func (cs *Contents) UnmarshalJSON(data []byte) error {
	data = bytes.TrimSpace(data)
	if len(data) > 0 && data[0] == '"' {
		var text string
		if err := json.Unmarshal(data, &text); err != nil {
			return err
		}
		*cs = Contents{Text{Text: text}}
		return nil
	}
	var raws []json.RawMessage
	if err := json.Unmarshal(data, &raws); err != nil {
		return err
	}
	list := make(Contents, 0, len(raws))
	for i, raw := range raws {
		c, err := decodeContent(raw)
		if err != nil {
			return fmt.Errorf("content %d: %w", i, err)
		}
		list = append(list, c)
	}
	*cs = list
	return nil
}

func decodeContent(raw json.RawMessage) (Content, error) {
	var head struct {
		Type ContentType `json:"type"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return nil, err
	}
	switch head.Type {
	case ContentText:
		return decodeAs[Text](raw)
	case ContentThinking:
		return decodeAs[Thinking](raw)
	case ContentImage:
		return decodeAs[Image](raw)
	case ContentToolCall:
		return decodeAs[ToolCall](raw)
	}
	return nil, &UnknownTypeError{What: "content", Type: string(head.Type)}
}

// JoinText returns the text blocks, one per line, as a plain log or terminal shows them.
func (cs Contents) JoinText() string {
	var b bytes.Buffer
	for _, c := range cs {
		if t, ok := c.(Text); ok {
			if b.Len() > 0 {
				b.WriteByte('\n')
			}
			b.WriteString(t.Text)
		}
	}
	return b.String()
}

// ToolCalls returns the tool calls among the blocks, in order.
func (cs Contents) ToolCalls() []ToolCall {
	var calls []ToolCall
	for _, c := range cs {
		if call, ok := c.(ToolCall); ok {
			calls = append(calls, call)
		}
	}
	return calls
}
