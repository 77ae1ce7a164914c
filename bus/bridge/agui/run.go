package agui

import (
	"context"
	"errors"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// settle is how long nothing must happen before a run that waits for the client is handed to it: the calls of a reply
// request their approvals one after another.
const settle = 100 * time.Millisecond

// run is one request.
type run struct {
	b        *Bridge
	in       *runInput
	hold     *bridge.Hold // of in
	follower bridge.Follower
	command  string                   // the prompt whose end is the stream's; "" if there is none
	tracker  *client.Tracker          // of the command
	target   string                   // without a command, the run whose end is the stream's, or ""
	own      map[string]bool          // prompts with the request's messages
	decided  map[schemas.CallKey]bool // approvals that the client has answered
	answered map[schemas.CallKey]bool // calls of which the client has sent the results
	stream   *bridge.EventStream
	p        *projection
	gone     error // error of writing to the client
}

// serve streams the run from its beginning until its end.
func (r *run) serve(ctx context.Context) {
	state := &r.follower.State
	begin := event{Type: "RUN_STARTED", ThreadID: r.in.ThreadID, RunID: r.in.RunID}
	if r.in.modern() {
		begin.ProtocolVersion = protocolVersion
	}
	r.p = newProjection(state, r.in.modern(), r.own)
	r.send(begin, event{Type: "MESSAGES_SNAPSHOT", Messages: snapshot(state)})
	r.follow(ctx)
}

// follow streams until the stream's last event, which it always sends.
func (r *run) follow(ctx context.Context) {
	state := &r.follower.State
	if end, over := r.ended(nil); over {
		r.finish(end)
		return
	}
	watch, cancel := context.WithCancel(ctx)
	defer cancel()
	items := bridge.Chan(watch, r.follower.Session.Watch(watch, state.Seq+1))
	defer func() {
		cancel()
		for range items { // wait for the loop to end
		}
	}()
	quiet := time.NewTimer(settle)
	defer quiet.Stop()
	for r.gone == nil {
		select {
		case next, ok := <-items:
			if !ok || next.Err != nil {
				r.finish(r.broken(ctx, next.Err))
				return
			}
			if end, over := r.item(next.Item); over {
				r.finish(end)
				return
			}
			quiet.Reset(settle)
		case <-quiet.C:
			if o, ok := r.waitsForClient(ctx); ok {
				r.finish(o)
				return
			}
		}
	}
}

// item processes an item and reports whether it ends the run.
func (r *run) item(i client.Item) (end event, over bool) {
	switch err := r.follower.Apply(i); {
	case errors.Is(err, bridge.ErrFull):
		_, code := bridge.Status(err)
		return event{Type: "RUN_ERROR", Message: err.Error(), Code: code}, true
	case err != nil:
		return event{Type: "RUN_ERROR", Message: err.Error(), Code: "damaged"}, true
	}
	r.send(r.p.take(i)...)
	return r.ended(i.Event)
}

// ended reports whether what the stream follows has ended, with the given event or, for nil, according to the log.
func (r *run) ended(e *schemas.Event) (end event, over bool) {
	if r.command != "" {
		result, over, err := r.tracker.Ended()
		switch {
		case over && err == nil:
			return r.outcome(result.Reason, result.ErrorMessage, result.Usage), true
		case over && r.own[r.command]:
			return refused(err), true
		case !over:
			return end, false
		}
		r.work() // the prompt was another's, and does not begin
	}
	if r.target == "" {
		return event{Type: "RUN_FINISHED"}, true // nothing to follow: the client has it all
	}
	if e != nil && e.RunID == r.target {
		if d, ok := e.Data.(*schemas.AgentEnd); ok {
			return r.outcome(d.TerminationReason, d.ErrorMessage, d.Usage), true
		}
	}
	return end, false
}

func refused(err error) event {
	var rejected *client.RejectedError
	if errors.As(err, &rejected) {
		return event{Type: "RUN_ERROR", Message: rejected.Reason, Code: string(rejected.Code)}
	}
	return event{Type: "RUN_ERROR", Message: err.Error(), Code: "withdrawn"}
}

// broken returns the end of a stream that cannot continue. The run itself continues.
func (r *run) broken(ctx context.Context, err error) event {
	if ctx.Err() != nil || err == nil {
		return event{Type: "RUN_ERROR", Code: "unavailable",
			Message: "the runner stops; the run goes on: send the request again"}
	}
	_, code := bridge.Status(err)
	return event{Type: "RUN_ERROR", Message: err.Error(), Code: code}
}

// outcome returns the end of a run that has ended.
func (r *run) outcome(reason schemas.TerminationReason, message string, u schemas.Usage) event {
	var used []usage
	if r.in.modern() {
		used = usageOf(u, r.follower.State.Config.Model)
	}
	switch {
	case reason.Normal() || reason == "": // "": a hook handled the input
		return event{Type: "RUN_FINISHED", Usage: used}
	case reason == schemas.EndAbort && r.in.modern():
		return event{Type: "RUN_FINISHED", Outcome: outcome{Type: "cancelled"}, Usage: used}
	}
	if message == "" {
		message = "the run has ended: " + string(reason)
	}
	return event{Type: "RUN_ERROR", Message: message, Code: string(reason), Usage: used}
}

// waitsForClient reports whether the run waits only for the client: for its approval, or for the result of one of its
// tools. It does not wait while what this request has brought is on its way to the log.
func (r *run) waitsForClient(ctx context.Context) (event, bool) {
	state := &r.follower.State
	if state.Run == nil || state.Run.Turn == nil || state.Run.Turn.Streaming != "" ||
		r.command != "" && !state.Known.Has(r.command) {
		return event{}, false
	}
	var interrupts []interrupt
	var pending []string
	for n, c := range state.Run.Turn.Calls {
		id := callID(state.Run.Turn.ReplyID, n)
		switch {
		case c.End != nil || c.Key == "":
		case c.AwaitsApproval() && !r.decided[c.Key]:
			asked, err := r.follower.Asked(ctx, c.Key)
			if err != nil {
				return r.broken(ctx, err), true
			}
			interrupts = append(interrupts, interruptOf(c, id, asked))
		case !c.AwaitsApproval() && r.frontend(c) && !r.answered[c.Key]:
			pending = append(pending, id)
		default:
			return event{}, false
		}
	}
	switch {
	case len(interrupts) > 0:
		return event{Type: "RUN_FINISHED", Outcome: outcome{Type: "interrupt", Interrupts: interrupts}}, true
	case len(pending) > 0 && r.in.modern():
		return event{Type: "RUN_FINISHED", Outcome: outcome{Type: "success", PendingToolCallIDs: pending}}, true
	}
	return event{Type: "RUN_FINISHED"}, len(pending) > 0
}

// interruptOf describes a call with the arguments that it is executed with. Its id contains the digest of the
// request, so that an answer applies to what was shown.
func interruptOf(c loop.Call, id string, asked *schemas.ApprovalRequested) interrupt {
	i := interrupt{ID: interruptID(asked), Reason: "tool_call", ToolCallID: id, ResponseSchema: approvalSchema,
		Message:  "May " + c.ToolCall.Name + " be executed?",
		Metadata: map[string]any{"toolName": asked.ToolName, "arguments": asked.Args}}
	if until := c.Approval.Until(); !until.IsZero() {
		i.ExpiresAt = until.UTC().Format(time.RFC3339)
	}
	return i
}

// frontend reports whether a call is of one of the client's tools.
func (r *run) frontend(c loop.Call) bool {
	for _, t := range r.follower.State.Config.Tools {
		if t.Name == c.ToolCall.Name {
			return isChannel(r.follower.Session.ID(), t.Workspace)
		}
	}
	return false
}

// frontendResults returns the results that the client sends for waiting calls.
func (r *run) frontendResults() map[schemas.CallKey]inputMessage {
	state, results := &r.follower.State, map[schemas.CallKey]inputMessage{}
	r.answered = map[schemas.CallKey]bool{}
	if state.Run == nil || state.Run.Turn == nil {
		return nil
	}
	sent := r.in.results()
	for n, c := range state.Run.Turn.Calls {
		m, ok := sent[callID(state.Run.Turn.ReplyID, n)]
		if ok && c.Key != "" && c.End == nil && r.frontend(c) {
			results[c.Key], r.answered[c.Key] = m, true
		}
	}
	return results
}

// finish closes what is open and ends the stream.
func (r *run) finish(end event) {
	if end.Type == "RUN_FINISHED" {
		end.ThreadID, end.RunID = r.in.ThreadID, r.in.RunID
	}
	r.send(r.p.finish()...)
	r.send(end)
}

func (r *run) send(events ...event) {
	for _, e := range events {
		if r.gone = r.stream.SendParts("", "", e.parts()); r.gone != nil {
			return
		}
	}
}
