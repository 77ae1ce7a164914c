package gateway

import (
	"strings"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// view derives events from what happens in a session.
type view struct {
	emit    func(name string, payload any) error
	tools   bool // emit those of tools
	key     string
	state   *loop.State
	run     string // run in progress, as clients know it
	seq     uint64 // of its events
	replies map[string]*reply
	last    any // newest reply of the run
}

// reply is the streamed part of a message.
type reply struct {
	text strings.Builder
	sent int // bytes already sent
}

// Clients expect each event to contain the whole reply so far. A new event is sent only when the reply has grown by at
// least this share, so that all events together are a multiple of its length and not its square: a sixty-fourth for a
// short reply, which is not noticeable, and an eighth for a long one.
const (
	shortShare = 64
	longReply  = 64 << 10
	longShare  = 8
)

// chat is the payload of an event "chat".
type chat struct {
	RunID        string         `json:"runId"`
	SessionKey   string         `json:"sessionKey"`
	Seq          uint64         `json:"seq"`
	State        string         `json:"state"`
	DeltaText    *string        `json:"deltaText,omitempty"`
	Replace      bool           `json:"replace,omitempty"`
	Message      any            `json:"message,omitempty"`
	ErrorMessage string         `json:"errorMessage,omitempty"`
	ErrorKind    string         `json:"errorKind,omitempty"`
	StopReason   string         `json:"stopReason,omitempty"`
	Usage        map[string]any `json:"usage,omitempty"`
}

// agent is the payload of an event "agent".
type agent struct {
	RunID  string         `json:"runId"`
	Seq    uint64         `json:"seq"`
	Stream string         `json:"stream"`
	TS     int64          `json:"ts"`
	Data   map[string]any `json:"data"`
}

func (v *view) chat(c chat) error {
	v.seq++
	c.RunID, c.SessionKey, c.Seq = v.run, v.key, v.seq
	return v.emit("chat", c)
}

func (v *view) agent(stream string, ts int64, seq uint64, data map[string]any) error {
	v.seq++
	data["stateVersion"] = seq // sequence of the log
	return v.emit("agent", agent{v.run, v.seq, stream, ts, data})
}

// newView returns the view of a session from a state on, which may be in the middle of a run.
func newView(key string, state *loop.State, tools bool, emit func(name string, payload any) error) *view {
	v := &view{emit: emit, tools: tools, key: key, state: state, replies: map[string]*reply{}}
	v.begin()
	return v
}

// begin starts the run when its first event arrives.
func (v *view) begin() {
	if v.state.Run == nil {
		return
	}
	if id := runID(v.state.Run.Command, v.state.Run.ID); id != v.run {
		v.run, v.seq, v.last = id, 0, nil
		clear(v.replies)
	}
}

func (v *view) take(i client.Item) error {
	if i.Event != nil {
		if c, ok := v.withoutRun(i.Event); ok {
			c.SessionKey, c.Seq = v.key, 1
			return v.emit("chat", c)
		}
	}
	v.begin()
	if v.run == "" {
		return nil
	}
	if i.Update != nil {
		return v.update(i.Update)
	}
	ts := i.Event.Time.UnixMilli()
	switch d := i.Event.Data.(type) {
	case *schemas.AgentStart:
		return v.agent("lifecycle", ts, i.Event.Seq, map[string]any{"phase": "start", "startedAt": ts})
	case *schemas.MessageEnd:
		return v.message(i.Event, d)
	case *schemas.AutoRetryStart, *schemas.ModelFallback:
		empty := "" // the reply was withdrawn
		return v.chat(chat{State: "delta", DeltaText: &empty, Replace: true, Message: textMessage("", ts)})
	case *schemas.ToolExecutionStart:
		return v.tool(ts, i.Event.Seq, map[string]any{"phase": "start", "name": d.ToolName, "args": d.Args,
			"toolCallId": string(schemas.NewCallKey(i.Event.Seq))})
	case *schemas.ToolExecutionEnd:
		return v.tool(ts, i.Event.Seq, map[string]any{"phase": "result", "name": d.ToolName, "toolCallId": string(d.Call),
			"result": d.Result, "isError": d.IsError})
	case *schemas.AgentEnd:
		return v.end(i.Event, d)
	}
	return nil
}

func (v *view) tool(ts int64, seq uint64, data map[string]any) error {
	if !v.tools {
		return nil
	}
	return v.agent("tool", ts, seq, data)
}

func (v *view) update(u *schemas.Update) error {
	switch d := u.Data.(type) {
	case *schemas.ToolExecutionUpdate:
		return v.tool(u.Time.UnixMilli(), u.Event, map[string]any{"phase": "update", "name": d.ToolName,
			"toolCallId": string(d.Call), "partialResult": d.PartialResult})
	case *schemas.MessageUpdate:
		text := ""
		for _, e := range d.AssistantMessageEvents {
			if e.Type == schemas.StreamTextDelta {
				text += e.Delta
			}
		}
		if text == "" {
			return nil
		}
		return v.say(d.MessageID, text, u.Time.UnixMilli(), false)
	}
	return nil
}

// say appends to a reply and sends all of it, as clients expect. If it has grown too little, nothing is sent until
// more arrives, unless this is the last piece.
func (v *view) say(message, delta string, ts int64, last bool) error {
	r := v.replies[message]
	if r == nil {
		r = new(reply)
		v.replies[message] = r
	}
	r.text.WriteString(delta)
	whole := r.text.String()
	unsent := whole[r.sent:]
	share := shortShare
	if len(whole) > longReply {
		share = longShare
	}
	if !last && len(unsent) < len(whole)/share {
		return nil
	}
	r.sent = len(whole)
	return v.chat(chat{State: "delta", DeltaText: &unsent, Message: textMessage(whole, ts)})
}

func textMessage(text string, ts int64) any {
	return map[string]any{"role": "assistant", "timestamp": ts,
		"content": schemas.Contents{schemas.Text{Text: text}}}
}

// message sends what was not streamed of a reply.
func (v *view) message(e *schemas.Event, d *schemas.MessageEnd) error {
	m, ok := d.Message.Message.(*schemas.AssistantMessage)
	if !ok || d.Interrupted {
		return nil
	}
	said, unsent := "", false
	if r := v.replies[d.MessageID]; r != nil {
		said, unsent = r.text.String(), r.sent < r.text.Len()
	}
	defer delete(v.replies, d.MessageID)
	v.last = chatMessage(loop.Entry{ID: d.MessageID, Message: d.Message})
	rest, ok := strings.CutPrefix(m.Content.JoinText(), said)
	switch {
	case ok && rest == "" && !unsent:
		return nil
	case ok:
		return v.say(d.MessageID, rest, e.Time.UnixMilli(), true)
	}
	whole := m.Content.JoinText()
	return v.chat(chat{State: "delta", DeltaText: &whole, Replace: true, Message: textMessage(whole, e.Time.UnixMilli())})
}
