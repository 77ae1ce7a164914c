package anthropicmessages

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/partialjson"
	"github.com/loopbus/loopbus/providers/internal/sse"
	"github.com/loopbus/loopbus/schemas"
)

// textRedacted is the text of thinking that the vendor sends encrypted.
const textRedacted = "[Reasoning redacted]"

// maxQuote is how many bytes of an invalid event an error quotes.
const maxQuote = 2000

// A reader assembles the reply from the vendor's events.
type reader struct {
	stream *assemble.Stream
	blocks map[int]*block // open blocks of known types, by the vendor's index
	begun  bool           // message_start was received
	done   bool           // message_stop was received
}

// A block is a block that the vendor has not ended.
type block struct {
	*assemble.Block
	complete bool // content_block_start contained all arguments of the tool call
}

// read reads the reply to its end.
func read(s *assemble.Stream, body io.Reader) error {
	r := reader{stream: s, blocks: make(map[int]*block)}
	events := sse.NewDecoder(body, s.Share())
	defer events.Close()
	for !r.done {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return r.errEarly()
		case err != nil:
			return err
		}
		if err := r.event(e); err != nil {
			return err
		}
	}
	return nil
}

// errEarly returns the error of a body that ends without an error before the reply is complete.
func (r *reader) errEarly() error {
	if r.begun {
		return schemas.NewFailure(schemas.FailureConnection, "Anthropic stream ended before message_stop")
	}
	return schemas.NewFailure(schemas.FailureConnection, "Anthropic stream ended before message_start")
}

// event handles an event. It ignores unknown events without decoding them.
func (r *reader) event(e sse.Event) error {
	switch e.Name {
	case "error":
		return failure.OfEvent(string(e.Data), e.Data)
	case "message_start", "content_block_start", "content_block_delta", "content_block_stop", "message_delta",
		"message_stop":
	default:
		return nil
	}
	var ev event
	if err := ev.parse(e.Data); err != nil {
		if e.Unterminated {
			err = fmt.Errorf("%w; stream ended before message_stop", err)
		}
		raw := strings.ReplaceAll(strings.TrimSuffix(string(e.Raw), "\n"), "\n", `\n`)
		return schemas.NewFailure(schemas.FailureServerError, fmt.Sprintf(
			"Could not parse Anthropic SSE event %s: %v; data=%.*s; raw=%.*s", e.Name, err, maxQuote, e.Data, maxQuote, raw))
	}
	r.stream.Alive()
	switch ev.Type {
	case "message_start":
		r.begun = true
		r.stream.SetResponseID(ev.Message.ID)
		r.usage(ev.Message.Usage)
	case "content_block_start":
		r.start(ev.Index, ev.ContentBlock)
	case "content_block_delta":
		r.delta(r.blocks[ev.Index], ev.Delta)
	case "content_block_stop":
		if b := r.blocks[ev.Index]; b != nil {
			b.End()
			delete(r.blocks, ev.Index)
		}
	case "message_delta":
		return r.messageDelta(ev)
	case "message_stop":
		r.stop()
	}
	return nil
}

// parse decodes an event. It repairs invalid JSON, because compatible vendors do not always escape strings.
func (ev *event) parse(data []byte) error {
	err := chat.Decode(data, ev)
	if err == nil {
		return nil
	}
	repaired, ok := partialjson.Repair(string(data))
	if !ok {
		return err
	}
	*ev = event{}
	return chat.Decode(repaired, ev)
}

func (r *reader) start(index int, c contentBlock) {
	b := new(block)
	switch c.Type {
	case "text":
		b.Block = r.stream.OpenText()
		b.begin(string(c.Text))
	case "thinking":
		b.Block = r.stream.OpenThinking()
		b.begin(string(c.Thinking))
		b.Sign(c.Signature)
	case "redacted_thinking":
		b.Block = r.stream.OpenThinking()
		b.Replace(textRedacted)
		b.Sign(c.Data)
		b.Redact()
	case "tool_use":
		b.Block = r.stream.OpenToolCall(c.ID, c.Name)
		if input := string(c.Input); input != "" && input != "null" && input != "{}" {
			b.Replace(input)
			b.complete = true
		}
	default:
		delete(r.blocks, index)
		return
	}
	r.blocks[index] = b
}

// begin appends the text of content_block_start, which is usually empty.
func (b *block) begin(text string) {
	if text != "" {
		b.Delta(text)
	}
}

// delta appends a piece to a block. A piece that does not fit the block's type is ignored.
func (r *reader) delta(b *block, d delta) {
	if b == nil {
		return
	}
	switch kind := b.Kind(); {
	case d.Type == "text_delta" && kind == schemas.ContentText:
		b.Delta(string(d.Text))
	case d.Type == "thinking_delta" && kind == schemas.ContentThinking:
		b.Delta(string(d.Thinking))
	case d.Type == "signature_delta" && kind == schemas.ContentThinking:
		b.AddSignature(d.Signature)
	case d.Type == "input_json_delta" && kind == schemas.ContentToolCall:
		if b.complete && d.PartialJSON != "" {
			b.Replace("")
			b.complete = false
		}
		b.Delta(string(d.PartialJSON))
	}
}

// messageDelta handles the stop reason and the usage. An unknown reason is an error, and the reply keeps its previous
// usage, as in the reference. A reason of a blocked reply is an error too.
func (r *reader) messageDelta(ev event) error {
	reason := ev.Delta.StopReason
	finish, known := stopReasons[reason]
	if reason != "" && !known {
		return chat.UnknownReason(reason)
	}
	r.usage(ev.Usage)
	switch {
	case finish == schemas.StopError:
		return blockedError(ev.Delta)
	case known:
		r.stream.Finish(finish)
	}
	return nil
}

// stop ends the reply. Without a stop reason, which compatible vendors may omit, the reason is stop.
func (r *reader) stop() {
	r.done = true
	if r.stream.Finished() == "" {
		r.stream.Finish(schemas.StopStop)
	}
}

// usage replaces the counts that u has.
func (r *reader) usage(u usage) {
	sum := r.stream.Usage()
	for _, count := range []struct {
		to   *int64
		from *int64
	}{{&sum.Input, u.Input}, {&sum.Output, u.Output}, {&sum.CacheRead, u.CacheRead}, {&sum.CacheWrite, u.CacheWrite}} {
		if count.from != nil {
			*count.to = *count.from
		}
	}
	sum.TotalTokens = sum.Input + sum.Output + sum.CacheRead + sum.CacheWrite
	r.stream.SetUsage(sum)
}
