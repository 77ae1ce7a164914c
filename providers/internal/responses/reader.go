package responses

import (
	"cmp"
	"io"
	"slices"
	"strings"

	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/schemas"
)

var (
	errNoEnd   = schemas.NewFailure(schemas.FailureConnection, "stream ended before response.completed")
	errUnknown = schemas.NewFailure(schemas.FailureUnknown, "An unknown error occurred")
	errBlocked = schemas.NewFailure(schemas.FailureRefused, "Reply blocked: content_filter")
)

// successStatuses lists the statuses of a successful response in its final event. Compatible servers omit the status,
// or repeat the one of the first event.
var successStatuses = []string{"completed", "", "in_progress", "queued"}

// A Reader assembles the reply from the events of a stream.
type Reader struct {
	s     *assemble.Stream
	open  map[int]*outputItem       // by output index
	price func(tier string) float64 // nil if service tiers do not change the cost
	ended bool                      // the final event was received
}

// outputItem is an item that has not ended.
type outputItem struct {
	block *assemble.Block
	last  partKind // of the newest part; deltas of a text or a summary are ignored until there is one

	part  int // index of the reasoning text's current part
	begin int // where that part begins in the block's text
}

// partKind is the kind of a part. The vendor's own word for it is not kept: it may be long.
type partKind int

const (
	noPart partKind = iota
	outputPart
	refusalPart
	otherPart
)

func kindOf(partType string) partKind {
	switch partType {
	case "":
		return noPart
	case "output_text":
		return outputPart
	case "refusal":
		return refusalPart
	}
	return otherPart
}

// NewReader returns a reader that assembles its reply in s. price returns the factor by which a service tier changes
// the cost; it is nil if tiers do not change it.
func NewReader(s *assemble.Stream, price func(tier string) float64) *Reader {
	return &Reader{s: s, open: map[int]*outputItem{}, price: price}
}

// Read reads the reply to its final event.
func (r *Reader) Read(body io.Reader) error {
	if _, err := chat.Read(body, r.s.Share(), r.take); err != nil {
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
		if err := r.completed(e); err != nil {
			return err
		}
		return chat.ErrDone // some servers keep the response open
	case "response.failed":
		r.usage(e.Response)
		return e.Response.failure()
	case "error":
		return failure.New("Error Code "+cmp.Or(e.Code, "unknown")+": "+cmp.Or(e.Message, "no message"), 0, e.Code)
	default:
		r.delta(e)
	}
	return nil
}

// delta applies an event to its item. An event that does not fit the item's kind is ignored.
func (r *Reader) delta(e event) {
	o := r.open[e.OutputIndex]
	if o == nil {
		return
	}
	switch o.block.Kind() {
	case schemas.ContentText:
		o.text(e)
	case schemas.ContentThinking:
		o.thinking(e)
	case schemas.ContentToolCall:
		o.call(e)
	}
}

func (o *outputItem) text(e event) {
	switch e.Type {
	case "response.content_part.added":
		o.last = kindOf(e.Part.Type)
	case "response.output_text.delta":
		if o.last == outputPart {
			o.block.Delta(string(e.Delta))
		}
	case "response.refusal.delta":
		if o.last == refusalPart {
			o.block.Delta(string(e.Delta))
		}
	}
}

// thinking applies an event of a reasoning item's summary or of its full text.
func (o *outputItem) thinking(e event) {
	switch e.Type {
	case "response.reasoning_summary_part.added":
		o.last = kindOf(e.Part.Type)
	case "response.reasoning_summary_text.delta":
		if o.last != noPart {
			o.block.Delta(string(e.Delta))
		}
	case "response.reasoning_summary_part.done":
		if o.last != noPart {
			o.block.Delta(partBreak)
		}
	case "response.reasoning_text.delta":
		o.addReasoning(e.PartIndex, string(e.Delta))
	case "response.reasoning_text.done":
		if rest, ok := strings.CutPrefix(string(e.Text), o.reasoning(e.PartIndex)); ok && rest != "" {
			o.addReasoning(e.PartIndex, rest)
		}
	}
}

// addReasoning appends to a part of the reasoning text. Parts become paragraphs.
func (o *outputItem) addReasoning(part int, delta string) {
	if part != o.part {
		if o.part = part; o.block.Text() != "" {
			delta = partBreak + delta
			o.begin = len(o.block.Text()) + len(partBreak)
		}
	}
	o.block.Delta(delta)
}

// reasoning returns the text received so far of a part of the reasoning text.
func (o *outputItem) reasoning(part int) string {
	if part != o.part {
		return ""
	}
	return o.block.Text()[o.begin:]
}

func (o *outputItem) call(e event) {
	switch e.Type {
	case "response.function_call_arguments.delta":
		o.block.Delta(string(e.Delta))
	case "response.function_call_arguments.done":
		o.setArguments(string(e.Arguments))
	}
}

// setArguments sets all arguments of a call. If they extend those received so far, it sends the rest as one delta.
func (o *outputItem) setArguments(arguments string) {
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

// begin opens the block of an item. It returns nil if items of this type have no block.
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

// done ends an item. The event contains the whole item.
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
		if thoughts := i.thoughts(); thoughts != "" {
			o.block.Replace(thoughts)
		} else { // keep the streamed text
			o.block.Replace(strings.TrimSuffix(o.block.Text(), partBreak))
		}
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
			o.setArguments(string(i.Arguments))
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
	r.usage(e.Response)
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
	case !slices.Contains(successStatuses, status):
		return chat.UnknownReason(status)
	case r.s.HasToolCalls():
		r.s.Finish(schemas.StopToolUse)
	default:
		r.s.Finish(schemas.StopStop)
	}
	return nil
}

// usage sets the usage of the response, at the price of its service tier.
func (r *Reader) usage(response response) {
	if response.Usage != nil {
		r.s.SetUsage(response.Usage.tokens())
	}
	if r.price != nil {
		r.s.ScaleCost(r.price(response.ServiceTier))
	}
}
