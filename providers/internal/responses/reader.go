package responses

import (
	"errors"
	"io"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/schemas"
)

var (
	errNoEnd = errors.New("stream ended before response.completed")
	//lint:ignore ST1005 the text that clients know
	errUnknown = errors.New("An unknown error occurred")
	//lint:ignore ST1005 a text for people
	errBlocked = errors.New("Reply blocked: content_filter")
)

// Reader makes blocks of the events of a stream.
type Reader struct {
	s     *assemble.Stream
	open  map[int]*outputItem
	price func(tier string) float64 // factor of the cost for a tier of service; nil is always 1
	ended bool
}

// outputItem is an item under way. last is the kind of its newest part: its deltas are lost before there is one.
type outputItem struct {
	block *assemble.Block
	last  string
}

// NewReader returns a reader. price is the factor of the cost for a tier of service, nil where tiers do not change it.
func NewReader(s *assemble.Stream, price func(tier string) float64) *Reader {
	return &Reader{s: s, open: map[int]*outputItem{}, price: price}
}

// Read reads the whole body.
func (r *Reader) Read(body io.Reader) error {
	if _, err := chat.Read(body, r.take); err != nil {
		return err
	}
	if !r.ended {
		return errNoEnd
	}
	return nil
}

func (r *Reader) take(data []byte) error {
	var e event
	if err := chat.Decode(data, &e); err != nil {
		return err
	}
	if openaiapi.Truthy(e.Error) {
		return openaiapi.FromStream(e.Error)
	}
	r.s.Alive()
	switch e.Type {
	case "response.created":
		r.s.SetResponseID(e.Response.ID)
	case "response.output_item.added":
		return r.added(e)
	case "response.output_item.done":
		return r.done(e)
	case "response.completed", "response.incomplete":
		return r.completed(e)
	case "response.failed":
		return errors.New(e.Response.failure())
	case "error":
		return errors.New("Error Code " + orElse(e.Code, "unknown") + ": " + orElse(e.Message, "no message"))
	default:
		r.delta(e)
	}
	return nil
}

// delta continues an item.
func (r *Reader) delta(e event) {
	o := r.open[e.OutputIndex]
	if o == nil {
		return
	}
	kind := o.block.Kind()
	switch e.Type {
	case "response.content_part.added":
		o.last = e.Part.Type
	case "response.output_text.delta":
		if kind == schemas.ContentText && o.last == "output_text" {
			o.block.Delta(string(e.Delta))
		}
	case "response.refusal.delta":
		if kind == schemas.ContentText && o.last == "refusal" {
			o.block.Delta(string(e.Delta))
		}
	case "response.reasoning_summary_part.added":
		o.last = e.Part.Type
	case "response.reasoning_summary_text.delta":
		if kind == schemas.ContentThinking && o.last != "" {
			o.block.Delta(string(e.Delta))
		}
	case "response.reasoning_summary_part.done":
		if kind == schemas.ContentThinking && o.last != "" {
			o.block.Delta("\n\n")
		}
	case "response.function_call_arguments.delta":
		if kind == schemas.ContentToolCall {
			o.block.Delta(string(e.Delta))
		}
	case "response.function_call_arguments.done":
		if kind == schemas.ContentToolCall {
			o.whole(string(e.Arguments))
		}
	}
}

// whole sets the arguments of a call to what the vendor says that they are: what is missing comes as one delta.
func (o *outputItem) whole(arguments string) {
	rest, ok := strings.CutPrefix(arguments, o.block.Text())
	switch {
	case !ok:
		o.block.Replace(arguments)
	case rest != "":
		o.block.Delta(rest)
	}
}

func (r *Reader) added(e event) error {
	var i item
	if err := chat.Decode(e.Item, &i); err != nil {
		return err
	}
	r.begin(e.OutputIndex, i)
	return nil
}

// begin opens the block of an item; nil if it is of a kind that has none.
func (r *Reader) begin(index int, i item) *outputItem {
	o := new(outputItem)
	switch i.Type {
	case "reasoning":
		o.block = r.s.OpenThinking()
	case "message":
		o.block = r.s.OpenText()
	case "function_call":
		o.block = r.s.OpenToolCall(i.CallID+"|"+i.ID, i.Name)
		if i.Arguments != "" {
			o.block.Delta(string(i.Arguments))
		}
	default:
		return nil
	}
	r.open[index] = o
	return o
}

// done ends an item, which is then said once more and in full.
func (r *Reader) done(e event) error {
	var i item
	if err := chat.Decode(e.Item, &i); err != nil {
		return err
	}
	o := r.open[e.OutputIndex]
	if o == nil && i.Type == "function_call" {
		o = r.begin(e.OutputIndex, item{Type: i.Type, ID: i.ID, CallID: i.CallID, Name: i.Name})
	}
	if o == nil {
		return nil
	}
	delete(r.open, e.OutputIndex)
	switch i.Type {
	case "reasoning":
		o.block.Replace(i.thoughts())
		o.block.Sign(string(e.Item))
	case "message":
		o.block.Replace(i.text())
		signature, err := schemas.Marshal(textSignature{V: 1, ID: i.ID, Phase: i.Phase})
		if err != nil {
			return err
		}
		o.block.Sign(string(signature))
	case "function_call":
		if o.block.Text() == "" {
			o.whole(string(i.Arguments))
		}
	}
	o.block.End()
	return nil
}

// completed ends the response.
func (r *Reader) completed(e event) error {
	r.ended = true
	if e.Response.ID != "" {
		r.s.SetResponseID(e.Response.ID)
	}
	if e.Response.Usage != nil {
		r.s.SetUsage(e.Response.Usage.tokens())
	}
	if r.price != nil {
		r.s.ScaleCost(r.price(e.Response.ServiceTier))
	}
	status := e.Response.Status
	if e.Type == "response.incomplete" {
		status = "incomplete"
	}
	switch {
	case e.Response.blocked():
		return errBlocked
	case status == "incomplete":
		r.s.Finish(schemas.StopLength)
	case status == "failed", status == "cancelled":
		return errUnknown
	case r.s.HasToolCalls():
		r.s.Finish(schemas.StopToolUse)
	default:
		r.s.Finish(schemas.StopStop)
	}
	return nil
}
