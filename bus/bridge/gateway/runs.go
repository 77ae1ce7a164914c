package gateway

import (
	"context"
	"strings"
	"sync"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// maxSubscriptions of a connection.
const maxSubscriptions = 64

// subscriptions are the sessions whose events a connection gets.
type subscriptions struct {
	p      *peer
	mu     sync.Mutex
	closed bool
	stop   map[string]context.CancelFunc // by key
	ended  sync.WaitGroup
}

func (s *subscriptions) init(p *peer) { s.p, s.stop = p, map[string]context.CancelFunc{} }

// add subscribes to a session from its end on, with what it is saying. A second time changes nothing.
func (s *subscriptions) add(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errGone
	case s.stop[key] != nil:
		return nil
	case len(s.stop) >= maxSubscriptions:
		return &bridge.RequestError{Reason: "too many subscriptions: unsubscribe from another session"}
	}
	f, err := s.p.open(ctx, s.p.session(key))
	if err != nil {
		return err
	}
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	s.stop[key] = stop
	s.ended.Go(func() {
		defer stop()
		v := &view{p: s.p, key: key, state: &f.State, replies: map[string]*strings.Builder{}}
		for item, err := range f.Items(follow) {
			if err == nil {
				err = v.take(item)
			}
			if err != nil {
				break
			}
		}
		s.remove(key)
	})
	return nil
}

func (s *subscriptions) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if stop := s.stop[key]; stop != nil {
		stop()
		delete(s.stop, key)
	}
}

func (s *subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	for _, stop := range s.stop {
		stop()
	}
	s.mu.Unlock()
	s.ended.Wait()
}

// view makes events of what happens in a session.
type view struct {
	p       *peer
	key     string
	state   *loop.State
	run     string // that is under way, as clients know it
	seq     uint64 // of its events
	replies map[string]*strings.Builder
	last    any // the newest reply of the run
}

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
	return v.p.event("chat", c, nil)
}

func (v *view) agent(stream string, ts int64, seq uint64, data map[string]any) error {
	v.seq++
	data["stateVersion"] = seq // of the log
	return v.p.event("agent", agent{v.run, v.seq, stream, ts, data}, nil)
}

// begin is that something of a run has come.
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
		empty := "" // the reply is withdrawn
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
	if !v.p.tools {
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
		return v.say(d.MessageID, text, u.Time.UnixMilli())
	}
	return nil
}

// say goes on with a reply. What was said so far comes with it, as clients want it.
func (v *view) say(message, delta string, ts int64) error {
	reply := v.replies[message]
	if reply == nil {
		reply = new(strings.Builder)
		v.replies[message] = reply
	}
	reply.WriteString(delta)
	return v.chat(chat{State: "delta", DeltaText: &delta, Message: textMessage(reply.String(), ts)})
}

func textMessage(text string, ts int64) any {
	return map[string]any{"role": "assistant", "timestamp": ts,
		"content": schemas.Contents{schemas.Text{Text: text}}}
}

// message is what of a reply was not streamed.
func (v *view) message(e *schemas.Event, d *schemas.MessageEnd) error {
	m, ok := d.Message.Message.(*schemas.AssistantMessage)
	if !ok || d.Interrupted {
		return nil
	}
	said := ""
	if reply := v.replies[d.MessageID]; reply != nil {
		said = reply.String()
	}
	v.last = chatMessage(loop.Entry{ID: d.MessageID, Message: d.Message})
	rest, ok := strings.CutPrefix(m.Content.JoinText(), said)
	switch {
	case ok && rest == "":
		return nil
	case ok:
		return v.say(d.MessageID, rest, e.Time.UnixMilli())
	}
	whole := m.Content.JoinText()
	return v.chat(chat{State: "delta", DeltaText: &whole, Replace: true, Message: textMessage(whole, e.Time.UnixMilli())})
}

func (v *view) end(e *schemas.Event, d *schemas.AgentEnd) error {
	id, reason, ts := v.run, d.TerminationReason, e.Time.UnixMilli()
	defer func() { v.run = "" }()
	c := chat{State: "final", Message: v.last, StopReason: string(reason), Usage: map[string]any{
		"input": d.Usage.Input, "output": d.Usage.Output, "totalTokens": d.Usage.TotalTokens}}
	phase := map[string]any{"phase": "end", "endedAt": ts, "terminationReason": string(reason)}
	switch {
	case reason.Normal():
	case reason == schemas.EndAbort:
		c.State, c.Usage, c.ErrorMessage = "aborted", nil, d.ErrorMessage
	default:
		c.State, c.StopReason, c.ErrorMessage = "error", "", d.ErrorMessage
		if c.ErrorMessage == "" {
			c.ErrorMessage = "the run has ended: " + string(reason)
		}
		if reason == schemas.TimeoutIdle || reason == schemas.TimeoutRun {
			c.ErrorKind = "timeout"
		}
		c.Usage = nil
		phase["phase"], phase["error"] = "error", c.ErrorMessage
	}
	v.run = id
	if err := v.agent("lifecycle", ts, e.Seq, phase); err != nil {
		return err
	}
	return v.chat(c)
}
