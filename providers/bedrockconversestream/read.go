package bedrockconversestream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/schemas"
)

// textRedacted is the text of thinking that the vendor sends encrypted.
const textRedacted = "[Reasoning redacted]"

// errEarly is the error of a body that ends, or becomes invalid, before the reply is complete.
var errEarly = schemas.NewFailure(schemas.FailureConnection, "Bedrock stream ended before messageStop")

var errBehindSignature = schemas.NewFailure(schemas.FailureServerError, "hidden thinking behind a signature")

// A reader assembles the reply from the vendor's events.
type reader struct {
	stream  *assemble.Stream
	blocks  map[int]*assemble.Block // by the vendor's index
	reason  string                  // the stop reason; "" before messageStop
	counted bool                    // metadata, the last event, was received
}

// read reads the reply to its end.
func read(s *assemble.Stream, body io.Reader) error {
	r := reader{stream: s, blocks: make(map[int]*assemble.Block)}
	in := newFrames(body, s.Share())
	defer in.close()
	for r.reason == "" || !r.counted {
		frame, err := in.next()
		if errors.Is(err, io.EOF) {
			break
		} else if schemas.FailureCodeOf(err) != schemas.FailureUnknown {
			return err // an error of the connection or of a limit
		} else if err != nil {
			return fmt.Errorf("%w: %w", errEarly, err)
		}
		if err := r.frame(frame); err != nil {
			return err
		}
	}
	return r.finish()
}

// frame handles a frame. Unknown events are ignored.
func (r *reader) frame(f eventstream.Message) error {
	switch kind := header(f, eventstreamapi.MessageTypeHeader); kind {
	case eventstreamapi.EventMessageType:
		name := header(f, eventstreamapi.EventTypeHeader)
		var e event
		if err := chat.Decode(f.Payload, &e); err != nil {
			return &schemas.FailureError{
				Code: schemas.FailureServerError, Err: fmt.Errorf("event %s of the Bedrock stream: %w", name, err),
			}
		}
		r.stream.Alive()
		return r.event(name, e)
	case eventstreamapi.ExceptionMessageType:
		var e struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(f.Payload, &e) != nil || e.Message == "" {
			e.Message = string(f.Payload)
		}
		return exception(0, header(f, eventstreamapi.ExceptionTypeHeader), e.Message)
	case eventstreamapi.ErrorMessageType:
		return exception(0, header(f, eventstreamapi.ErrorCodeHeader), header(f, eventstreamapi.ErrorMessageHeader))
	}
	return nil
}

func header(f eventstream.Message, name string) string {
	if v := f.Headers.Get(name); v != nil {
		return v.String()
	}
	return ""
}

func (r *reader) event(name string, e event) error {
	switch name {
	case "messageStart":
		if e.Role != "assistant" {
			return schemas.NewFailure(schemas.FailureServerError,
				"Unexpected assistant message start but got user message start instead")
		}
		r.stream.Start()
	case "contentBlockStart":
		if use := e.Start.ToolUse; use != nil {
			r.blocks[e.Index] = r.stream.OpenToolCall(use.ID, use.Name)
		}
	case "contentBlockDelta":
		return r.delta(e.Index, e.Delta)
	case "contentBlockStop":
		if b := r.blocks[e.Index]; b != nil {
			b.End()
			delete(r.blocks, e.Index)
		}
	case "messageStop":
		if r.stream.Keep(len(e.StopReason)) {
			r.reason = e.StopReason
			r.stream.Linger() // some gateways send no metadata
		}
	case "metadata":
		r.counted = true
		if e.Usage != nil {
			r.stream.SetUsage(e.Usage.counts())
		}
	}
	return nil
}

// delta appends a piece to a block. It opens a block of text or thinking at its first piece, because only tool calls
// have a contentBlockStart. A piece that does not fit the block's type is ignored.
func (r *reader) delta(index int, d delta) error {
	b := r.blocks[index]
	if b == nil {
		switch {
		case d.Text != nil:
			b = r.stream.OpenText()
		case d.Reasoning != nil:
			b = r.stream.OpenThinking()
		default:
			return nil
		}
		r.blocks[index] = b
	}
	switch kind := b.Kind(); {
	case d.Text != nil && kind == schemas.ContentText:
		b.Delta(string(*d.Text))
	case d.ToolUse != nil && kind == schemas.ContentToolCall:
		b.Delta(string(d.ToolUse.Input))
	case d.Reasoning != nil && kind == schemas.ContentThinking:
		if d.Reasoning.Text != "" {
			b.Delta(string(d.Reasoning.Text))
		}
		b.AddSignature(d.Reasoning.Signature)
		if len(d.Reasoning.Redacted) > 0 && !b.Hide(d.Reasoning.Redacted, textRedacted) {
			return errBehindSignature
		}
	}
	return nil
}

// finish ends the reply with its stop reason.
func (r *reader) finish() error {
	if r.reason == "" {
		return errEarly
	}
	reason, ok := stopReasons[r.reason]
	switch {
	case !ok:
		return chat.UnknownReason(r.reason)
	case reason == schemas.StopError:
		return schemas.NewFailure(schemas.FailureRefused, "Reply blocked: "+r.reason)
	}
	r.stream.Finish(reason)
	return nil
}
