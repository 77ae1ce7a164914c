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

// textRedacted stands for thinking whose words the vendor hides.
const textRedacted = "[Reasoning redacted]"

// maxQuote is how much of an event that makes no sense is quoted, in bytes.
const maxQuote = 2000

// A reader makes a stream of the vendor's events.
type reader struct {
	stream *assemble.Stream
	blocks map[int]*block // by the vendor's index; of kinds that are not known there are none
	begun  bool           // message_start has come
	done   bool           // message_stop has come
}

// A block is one that the vendor has open.
type block struct {
	*assemble.Block
	given bool // a tool call's arguments came whole with its start
}

// read reads the reply to its end.
func read(s *assemble.Stream, body io.Reader) error {
	r := reader{stream: s, blocks: make(map[int]*block)}
	events := sse.NewDecoder(body)
	for !r.done {
		e, err := events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return r.early()
		case err != nil:
			return err
		}
		if err := r.event(e); err != nil {
			return err
		}
	}
	return nil
}

// early is the error of a body that ends as if the reply were complete.
func (r *reader) early() error {
	if r.begun {
		return schemas.NewFailure(schemas.FailureConnection, "Anthropic stream ended before message_stop")
	}
	return schemas.NewFailure(schemas.FailureConnection, "Anthropic stream ended before message_start")
}

// event takes in an event. Those that are not known may have anything in them, and are ignored.
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

// parse decodes an event. Vendors that imitate the API do not always escape what they send.
func (ev *event) parse(data []byte) error {
	err := chat.Decode(data, ev)
	if err == nil {
		return nil
	}
	mended, ok := partialjson.Repair(string(data))
	if !ok {
		return err
	}
	*ev = event{}
	return chat.Decode(mended, ev)
}

func (r *reader) start(index int, c contentBlock) {
	b := new(block)
	switch c.Type {
	case "text":
		b.Block = r.stream.OpenText()
		b.say(string(c.Text))
	case "thinking":
		b.Block = r.stream.OpenThinking()
		b.say(string(c.Thinking))
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
			b.given = true
		}
	default:
		delete(r.blocks, index)
		return
	}
	r.blocks[index] = b
}

// say appends what a block begins with, which is usually nothing.
func (b *block) say(text string) {
	if text != "" {
		b.Delta(text)
	}
}

// delta takes in a piece of a block. One that does not fit the block's kind is ignored.
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
		if b.given && d.PartialJSON != "" {
			b.Replace("")
			b.given = false
		}
		b.Delta(string(d.PartialJSON))
	}
}

// messageDelta takes in why the reply ended, and what it took. A reason that nobody knows ends the reply as an error
// with the usage from before, as in the reference; and so do those that say that the vendor held the reply back.
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

// stop is the end of the reply. Vendors that imitate the API do not always say why.
func (r *reader) stop() {
	r.done = true
	if r.stream.Finished() == "" {
		r.stream.Finish(schemas.StopStop)
	}
}

// usage sets the counts that there are, over those from before.
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
