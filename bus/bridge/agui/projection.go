package agui

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// projection derives AG-UI events from what happens in a session. It does no I/O and is not safe for concurrent use.
type projection struct {
	state   *loop.State // as folded up to the item at hand
	modern  bool
	own     map[string]bool // commands whose messages the client has sent itself
	out     []event
	step    string
	replies map[string]*reply
}

// reply is what a client has received of a message that is being streamed.
type reply struct {
	id       string
	text     strings.Builder // a Builder, because appending must not cost the length of the text
	textAt   int             // content index of the last text
	started  bool            // TEXT_MESSAGE_START was sent
	open     string
	thoughts strings.Builder
	calls    []*sentCall
}

type sentCall struct {
	started, ended bool
	name           string
	args           strings.Builder
	index          int // in the message's content
}

// maxCalls limits the calls of a reply that are shown before it is complete, because the cost is quadratic, and the
// answers of a resume. It is the limit for the calls of a reply of vendors, too.
const maxCalls = 256

// What may be open in a reply; calls are open with their id.
const (
	openNothing   = ""
	openText      = "text"
	openReasoning = "reasoning"
)

func newProjection(state *loop.State, modern bool, own map[string]bool) *projection {
	return &projection{state: state, modern: modern, own: own, replies: map[string]*reply{}}
}

// take returns the events derived from an item of the run.
func (p *projection) take(i client.Item) []event {
	p.out = nil
	if i.Update != nil {
		p.update(i.Update)
		return p.out
	}
	switch d := i.Event.Data.(type) {
	case *schemas.TurnStart:
		p.step = i.Event.TurnID
		p.emit(event{Type: "STEP_STARTED", StepName: p.step})
	case *schemas.TurnEnd:
		p.endStep()
	case *schemas.AgentEnd: // another run may follow
		p.closeAll()
		p.endStep()
	case *schemas.MessageEnd:
		p.message(i.Event, d)
	case *schemas.AutoRetryStart, *schemas.ModelFallback, *schemas.TranscriptReplaced:
		p.snapshot()
	}
	return p.out
}

func (p *projection) emit(e event) { p.out = append(p.out, e) }

// snapshot emits the whole transcript. Nothing may be open before it.
func (p *projection) snapshot() {
	p.closeAll()
	p.emit(event{Type: "MESSAGES_SNAPSHOT", Messages: snapshot(p.state)})
}

// finish closes what is open, which is required before the end of a run, and returns those events.
func (p *projection) finish() []event {
	p.out = nil
	p.closeAll()
	p.endStep()
	return p.out
}

func (p *projection) endStep() {
	if p.step != "" {
		p.emit(event{Type: "STEP_FINISHED", StepName: p.step})
		p.step = ""
	}
}

func (p *projection) closeAll() {
	for _, r := range p.replies {
		p.close(r)
	}
	clear(p.replies)
}

func (p *projection) reply(id string) *reply {
	r := p.replies[id]
	if r == nil {
		r = &reply{id: id, textAt: -1}
		p.replies[id] = r
	}
	return r
}

func (p *projection) update(u *schemas.Update) {
	switch d := u.Data.(type) {
	case *schemas.MessageUpdate:
		r := p.reply(d.MessageID)
		for _, e := range d.AssistantMessageEvents {
			p.delta(r, e)
		}
	case *schemas.ToolExecutionUpdate:
		yes := true
		p.emit(event{Type: "ACTIVITY_SNAPSHOT", MessageID: string(d.Call) + ".progress", ActivityType: "tool_progress",
			Replace: &yes, Content: map[string]any{"toolCallId": p.callOf(d.Call), "toolName": d.ToolName,
				"text": shown(d.PartialResult.Content)}})
	}
}

func (p *projection) delta(r *reply, e schemas.StreamEvent) {
	switch e.Type {
	case schemas.StreamTextDelta:
		if r.textAt >= 0 && r.textAt != e.ContentIndex {
			p.say(r, "\n") // text blocks are joined by line breaks
		}
		r.textAt = e.ContentIndex
		p.say(r, e.Delta)
	case schemas.StreamThinkingDelta:
		p.think(r, e.Delta)
	case schemas.StreamToolCallStart:
		if e.ToolCall != nil && e.ToolCall.Name != "" && len(r.calls) < maxCalls {
			r.calls = append(r.calls, &sentCall{index: e.ContentIndex})
			p.call(r, len(r.calls)-1, e.ToolCall.Name, "")
		}
	case schemas.StreamToolCallDelta:
		for n := range r.calls {
			if c := r.calls[n]; c.index == e.ContentIndex && !c.ended && r.open == callID(r.id, n) {
				p.call(r, n, "", e.Delta)
			}
		}
	}
}

// say appends to a reply's text.
func (p *projection) say(r *reply, delta string) {
	if delta == "" {
		return
	}
	if r.open != openText {
		p.close(r)
		p.emit(event{Type: "TEXT_MESSAGE_START", MessageID: r.id, Role: "assistant"})
		r.open, r.started = openText, true
	}
	r.text.WriteString(delta)
	p.emit(event{Type: "TEXT_MESSAGE_CONTENT", MessageID: r.id, Delta: delta})
}

func (p *projection) think(r *reply, delta string) {
	if delta == "" {
		return
	}
	id := reasoningID(r.id)
	if r.open != openReasoning {
		p.close(r)
		p.emit(event{Type: "REASONING_START", MessageID: id})
		p.emit(event{Type: "REASONING_MESSAGE_START", MessageID: id, Role: "reasoning"})
		r.open = openReasoning
	}
	r.thoughts.WriteString(delta)
	p.emit(event{Type: "REASONING_MESSAGE_CONTENT", MessageID: id, Delta: delta})
}

// call appends to the arguments of a reply's nth call, starting it if necessary.
func (p *projection) call(r *reply, n int, name, args string) {
	c, id := r.calls[n], callID(r.id, n)
	if !c.started {
		p.close(r)
		p.emit(event{Type: "TOOL_CALL_START", ToolCallID: id, ToolCallName: name, ParentMessageID: r.id})
		r.open, c.started, c.name = id, true, name
	}
	if args != "" {
		c.args.WriteString(args)
		p.emit(event{Type: "TOOL_CALL_ARGS", ToolCallID: id, Delta: args})
	}
}

// close closes what is open in a reply.
func (p *projection) close(r *reply) {
	switch r.open {
	case openNothing:
	case openText:
		p.emit(event{Type: "TEXT_MESSAGE_END", MessageID: r.id})
	case openReasoning:
		p.emit(event{Type: "REASONING_MESSAGE_END", MessageID: reasoningID(r.id)})
		p.emit(event{Type: "REASONING_END", MessageID: reasoningID(r.id)})
	default:
		p.emit(event{Type: "TOOL_CALL_END", ToolCallID: r.open})
		for n := range r.calls {
			r.calls[n].ended = r.calls[n].ended || callID(r.id, n) == r.open
		}
	}
	r.open = openNothing
}

// message processes a complete message of the log.
func (p *projection) message(e *schemas.Event, d *schemas.MessageEnd) {
	switch m := d.Message.Message.(type) {
	case *schemas.UserMessage:
		if p.own[cmp.Or(e.CausationID, e.CorrelationID)] {
			p.snapshot() // the client knows it by its own id
			return
		}
		p.emit(event{Type: "TEXT_MESSAGE_START", MessageID: d.MessageID, Role: "user"})
		if text := m.Content.JoinText(); text != "" {
			p.emit(event{Type: "TEXT_MESSAGE_CONTENT", MessageID: d.MessageID, Delta: text})
		}
		p.emit(event{Type: "TEXT_MESSAGE_END", MessageID: d.MessageID})
	case *schemas.ToolResultMessage:
		if id := resultOf(p.state, d.MessageID); id != "" {
			p.emit(event{Type: "TOOL_CALL_RESULT", MessageID: d.MessageID, ToolCallID: id, Role: "tool",
				Content: shown(m.Content)})
		}
	case *schemas.AssistantMessage:
		r := p.reply(d.MessageID)
		if d.Interrupted || !p.rest(r, m) {
			p.snapshot()
			return
		}
		p.close(r)
		delete(p.replies, d.MessageID)
	}
}

// rest emits what was not streamed of a reply. It reports whether what was streamed is a part of the reply.
func (p *projection) rest(r *reply, m *schemas.AssistantMessage) bool {
	var thoughts strings.Builder
	for _, c := range m.Content {
		if t, ok := c.(schemas.Thinking); ok {
			thoughts.WriteString(t.Thinking)
		}
	}
	if missing, ok := strings.CutPrefix(thoughts.String(), r.thoughts.String()); ok && !r.started && len(r.calls) == 0 {
		p.think(r, missing) // after the text it would come too late
	}
	missing, ok := strings.CutPrefix(m.Content.JoinText(), r.text.String())
	if !ok {
		return false
	}
	p.say(r, missing)
	calls := m.Content.ToolCalls()
	if len(r.calls) > len(calls) {
		return false
	}
	for n, c := range calls {
		if n == len(r.calls) {
			r.calls = append(r.calls, new(sentCall))
		}
		if r.calls[n].started && r.calls[n].name != c.Name {
			return false
		}
		sent := r.calls[n].args.String()
		missing, ok := strings.CutPrefix(arguments(c), sent)
		if !ok && !sameJSON(arguments(c), sent) {
			return false
		}
		if ok && missing != "" {
			if r.calls[n].ended {
				return false
			}
			p.call(r, n, c.Name, missing)
		}
	}
	return true
}

// maxCompared is how many bytes of two texts are decoded to compare them: decoded, they may take some fifty times as
// much, for every client.
const maxCompared = 64 << 10

// sameJSON reports whether two texts are the same JSON. Large ones may differ in the space between their tokens only.
func sameJSON(a, b string) bool {
	if len(a)+len(b) > maxCompared {
		return sameTokens(a, b)
	}
	var x, y any
	if json.Unmarshal([]byte(a), &x) != nil || json.Unmarshal([]byte(b), &y) != nil {
		return false
	}
	return fmt.Sprint(x) == fmt.Sprint(y)
}

// sameTokens reports whether two texts are the same but for space outside of strings.
func sameTokens(a, b string) bool {
	const space = " \t\r\n"
	for quoted, escaped := false, false; ; a, b = a[1:], b[1:] {
		if !quoted {
			a, b = strings.TrimLeft(a, space), strings.TrimLeft(b, space)
		}
		if a == "" || b == "" || a[0] != b[0] {
			return a == "" && b == ""
		}
		switch {
		case escaped:
			escaped = false
		case a[0] == '"':
			quoted = !quoted
		default:
			escaped = quoted && a[0] == '\\'
		}
	}
}

// callOf returns the id of a call of the turn in progress.
func (p *projection) callOf(key schemas.CallKey) string {
	if p.state.Run == nil || p.state.Run.Turn == nil {
		return ""
	}
	for n, c := range p.state.Run.Turn.Calls {
		if c.Key == key {
			return callID(p.state.Run.Turn.ReplyID, n)
		}
	}
	return ""
}
