package gateway

import (
	"context"
	"slices"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Every message that a session has got ends with an event "chat" of the state final, aborted or error. That of a
// message that starts a run comes with the end of the run.

// Stop reasons of messages that have started no run, and are final nevertheless.
const (
	stopHandled = "handled" // a hook has dealt with it
	stopJoined  = "joined"  // the run in progress has taken it in, and its events have that run's id
)

// withoutRun returns the end of a message that starts no run, if the event is that end.
func (v *view) withoutRun(e *schemas.Event) (c chat, ok bool) {
	switch d := e.Data.(type) {
	case *schemas.CommandWithdrawn:
		return chat{RunID: d.CommandID, State: "aborted", ErrorMessage: "the message was withdrawn"}, true
	case *schemas.CommandSuperseded:
		return chat{RunID: d.CommandID, State: "aborted", ErrorMessage: "another message took the place of this one"}, true
	case *schemas.CommandRejected:
		return chat{RunID: d.CommandID, State: "error", ErrorMessage: d.Reason}, isMessage(d.Kind)
	case *schemas.CommandApplied:
		c = chat{RunID: d.CommandID, State: "final", StopReason: stopJoined}
		if len(d.MessageIDs) == 0 {
			c.StopReason = stopHandled
		}
		return c, isMessage(d.Kind) && (v.state.Run == nil || v.state.Run.Command != d.CommandID)
	}
	return c, false
}

// isMessage reports whether chat.send sends commands of the kind.
func isMessage(k schemas.CommandKind) bool {
	return slices.Contains([]schemas.CommandKind{schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp}, k)
}

// again sends the end of a message that has ended by an event of the log. To the session it is nothing new, so no other
// event of it follows for the client that has sent it again.
func (p *peer) again(ctx context.Context, key, id string, until uint64) error {
	room := p.b.o.Views.Hold(bridge.SessionID(key))
	defer room.Release()
	f := bridge.Follower{Session: p.session(key).WithRoom(room.Load), Outlined: true, Room: room}
	var end *chat
	v := newView(key, &f.State, false, func(_ string, payload any) error {
		if c, ok := payload.(chat); ok && c.RunID == id && c.State != "delta" {
			end = &c
		}
		return nil
	})
	for e, err := range f.Session.History(ctx, 1) {
		if err == nil && e.Seq > until {
			break
		}
		item := client.Item{Event: &e}
		if err == nil {
			err = f.Apply(item)
		}
		if err == nil {
			err = v.take(item)
		}
		if err != nil {
			return err
		}
	}
	if end == nil {
		return nil // it has not ended yet: the subscription will tell
	}
	return p.event("chat", *end, nil)
}

func (v *view) end(e *schemas.Event, d *schemas.AgentEnd) error {
	id, reason, ts := v.run, d.TerminationReason, e.Time.UnixMilli()
	defer func() { // nothing is kept of a run that has ended
		v.run, v.last = "", nil
		clear(v.replies)
	}()
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
