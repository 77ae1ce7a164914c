package simulation_test

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// clock is the format of times.
const clock = "15:04:05.000000"

// checkAck checks that an acknowledged command has its effect in the log, and that its session is at rest, or that
// another command or a timer will wake it: the timer of a retry stays when a runner that was given up, and whose clock
// is ahead, retries before it. It does not check the second for sessions that two consumers shared: a reader does not
// know what the other one has settled. The caller holds the lock.
func (w *world) checkAck(m *message, by string) {
	s := &w.session(m.cmd.Session).state
	if lacks(s, m.cmd) {
		w.fail(fmt.Sprintf("%s acknowledged %s %s of %s, but its effect is not in the log", by, m.cmd.Data.CommandKind(),
			m.cmd.ID, s.Session))
	}
	if w.queue.shared[s.Session] || slices.ContainsFunc(w.queue.messages,
		func(o *message) bool { return o.cmd.Session == s.Session && !o.settled }) {
		return
	}
	if w.timers[s.Session+"/"+schemas.TimerRetry] != nil {
		return
	}
	if owed := w.owed(s); owed != "" {
		w.fail(fmt.Sprintf("%s acknowledged %s of %s, but no message is left to wake the session: %s",
			by, m.cmd.ID, s.Session, owed))
	}
}

// lacks reports whether the effect of a command is missing in a log.
func lacks(s *loop.State, cmd schemas.Command) bool {
	switch d := cmd.Data.(type) {
	case *schemas.ToolResponse:
		call := s.Call(d.Call)
		return call != nil && call.End == nil
	case *schemas.SubagentResult:
		return s.Answers(d)
	case *schemas.Timer:
		return d.Name == schemas.TimerRunDeadline && s.Run != nil && s.Run.ID == d.RunID && s.Run.Abort == nil
	}
	return !s.Known.Has(cmd.ID)
}

// owed describes what a session's runner has still to do; "" if the session waits for a message. The caller holds the
// lock.
func (w *world) owed(s *loop.State) string {
	for _, c := range s.Children {
		if !w.atWork(s, &c) {
			return fmt.Sprintf("sub-agent %s, which nobody will bring to its end", c.Start.Session)
		}
	}
	switch step := loop.Next(s).(type) {
	case loop.Rest:
		return ""
	case loop.Retry:
		if w.timers[s.Session+"/"+schemas.TimerRetry] != nil {
			return ""
		}
		return fmt.Sprintf("a retry at %s without a timer", step.NotBefore.Format(clock))
	case loop.RunTools:
		if step.Aborted {
			return "an abort"
		}
		beyond := s.BeyondWindow(w.window)
		for _, i := range step.Calls {
			call := s.Run.Turn.Calls[i]
			if beyond[i] && call.Key != "" { // an earlier call is in progress, or the loop finds it missing
				continue
			}
			if call.Key == "" || s.Child(call.Key) == nil && !w.underWay(s.Session, call.Key) {
				return fmt.Sprintf("call %s %q, which no worker has", call.ToolCall.Name, call.Key)
			}
		}
		return ""
	default:
		return fmt.Sprintf("%T %+v", step, step)
	}
}

// quiet reports whether everything is at rest, and if not, why.
func (w *world) quiet() (ok bool, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, m := range w.queue.messages {
		return false, fmt.Sprintf("%s %s of %s is not acknowledged after %d deliveries", m.cmd.Data.CommandKind(), m.cmd.ID,
			m.cmd.Session, m.deliveries)
	}
	for key := range w.jobs {
		return false, "call " + key + " is not settled"
	}
	for _, s := range w.sessions {
		if !s.state.Idle() {
			return false, fmt.Sprintf("session %s is in the middle of run %s, next %T", s.state.Session, s.state.Run.ID,
				loop.Next(&s.state))
		}
		for _, c := range s.state.Children {
			return false, fmt.Sprintf("session %s waits for sub-agent %s", s.state.Session, c.Start.Session)
		}
	}
	return true, ""
}

// judge checks everything that happened against the promises.
func (w *world) judge() {
	w.mu.Lock() // a timer may still fire
	sessions, commands, executions := maps.Clone(w.sessions), slices.Clone(w.commands), maps.Clone(w.executions)
	w.mu.Unlock()
	logs := map[string][]schemas.Event{}
	for id, s := range sessions {
		report, err := w.store.Verify(context.Background(), id,
			eventstore.VerifyOptions{Version: loop.FoldVersion, Refold: refold(id)})
		if err == nil && report.Bad != nil {
			err = report.Bad
		}
		if err == nil {
			logs[id], err = all(w.store.Read(context.Background(), id, 1))
		}
		if err != nil || report.Events != s.state.Seq {
			w.violated("the log of %s has %d events, should have %d: %v", id, report.Events, s.state.Seq, err)
		}
	}
	for _, v := range history.Check(history.History{
		Commands: commands, Logs: logs, Executions: executions, Counted: counted,
	}) {
		w.violated("%s", v)
	}
}

// counted returns the key under which a call's executions are counted.
func counted(session string, start *schemas.ToolExecutionStart, key schemas.CallKey) (history.Call, bool) {
	call := history.Call{Key: session + "/" + string(key)}
	if start.ToolName == schemas.ToolAgent { // the runner executes it
		return call, false
	}
	for _, d := range definitions {
		if d.Name == start.ToolName {
			call.Effect = d.Effect
		}
	}
	return call, true
}

// refold returns the encoded state of a session after some events, as a runner saves it.
func refold(session string) func(iter.Seq[schemas.Event]) ([]byte, error) {
	return func(events iter.Seq[schemas.Event]) ([]byte, error) {
		state := &loop.State{Session: session}
		for e := range events {
			if err := state.Apply(e); err != nil {
				return nil, err
			}
		}
		return schemas.Marshal(state)
	}
}
