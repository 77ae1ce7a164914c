package crashpoints_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// witness checks every message about a session against the log at the moment when the message passes the gateway. It
// reads the log over a direct connection while the gateway holds the message.
type witness struct {
	tr      *trial
	session string

	mu         sync.Mutex
	state      loop.State
	unsettled  map[uint64]delivery // of the inbox, by stream sequence
	dispatched map[schemas.CallKey]bool
	wrongs     []string
	past       []string // deliveries and acknowledgements, for failure messages
}

func newWitness(tr *trial, session string) *witness {
	return &witness{
		tr: tr, session: session, state: loop.State{Session: session}, unsettled: map[uint64]delivery{},
		dispatched: map[schemas.CallKey]bool{},
	}
}

func (w *witness) wrong(format string, args ...any) {
	w.wrongs = append(w.wrongs, fmt.Sprintf(format, args...))
}

// delivered records a delivery in flight.
func (w *witness) delivered(d delivery) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d.session == w.session && d.call == "" {
		w.unsettled[d.seq] = d
		w.past = append(w.past, fmt.Sprintf("+%s/%d", d.command.ID, d.seq))
	}
}

// sent checks a message before the gateway forwards it. d is the command, if a sub-agent and its parent exchange one.
func (w *witness) sent(kind pointKind, m *wire.Message, d schemas.CommandData) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch kind {
	case pointDispatch:
		w.dispatch(m)
	case pointFamily:
		w.family(m, d)
	case pointAck:
		w.acknowledged(m)
	}
}

// dispatch checks that the call's tool_execution_start is stored.
func (w *witness) dispatch(m *wire.Message) {
	w.catchUp()
	_, _, key, err := subjects.ParseTool(m.Subject)
	if err != nil {
		w.wrong("dispatched to %s: %v", m.Subject, err)
		return
	}
	if call := w.state.Call(schemas.CallKey(key)); call == nil || call.End != nil {
		w.wrong("call %s is dispatched, but the log, at %d, has no such open call", key, w.state.Seq)
	}
	w.dispatched[schemas.CallKey(key)] = true
}

// acknowledged checks that the effect of the command is stored, and that the session is at rest unless another of its
// messages is unsettled.
func (w *witness) acknowledged(m *wire.Message) {
	seq, _ := streamSeq(m.Subject)
	d, ok := w.unsettled[seq]
	if !ok {
		return // settled already: it was delivered twice
	}
	w.catchUp()
	delete(w.unsettled, seq)
	w.past = append(w.past, fmt.Sprintf("-%s/%d at %d", d.command.ID, seq, w.state.Seq))
	if !w.took(d.command) {
		w.wrong("%s %s is acknowledged, but the log, at %d, does not have it", d.command.Data.CommandKind(), d.command.ID,
			w.state.Seq)
	}
	if len(w.unsettled) == 0 && !w.atRest() {
		w.wrong("%s %s, the last in flight, is acknowledged, but the session, at %d, is awake: its next step is %T",
			d.command.Data.CommandKind(), d.command.ID, w.state.Seq, loop.Next(&w.state))
	}
}

func (w *witness) took(c schemas.Command) bool {
	switch d := c.Data.(type) {
	case *schemas.ToolResponse:
		call := w.state.Call(d.Call)
		return call == nil || call.End != nil
	case *schemas.Timer:
		return true // a late timer has no effect
	case *schemas.SubagentResult:
		return !w.state.Answers(d)
	}
	return w.state.Known.Has(c.ID)
}

// atRest reports whether the session's next step waits for a message.
func (w *witness) atRest() bool {
	switch step := loop.Next(&w.state).(type) {
	case loop.Rest:
		return true
	case loop.RunTools:
		beyond := w.state.BeyondWindow(callsInQueue)
		for _, i := range step.Calls {
			call := w.state.Run.Turn.Calls[i]
			if !beyond[i] && !call.AwaitsApproval() && !w.dispatched[call.Key] {
				return false
			}
		}
		return !step.Aborted
	case loop.Retry:
		return w.timerIsSet(schemas.TimerRetry) || time.Now().After(step.NotBefore) // the timer is in the inbox
	}
	return false
}

func (w *witness) timerIsSet(name string) bool {
	set, err := bustest.TimerWaits(w.tr.ctx, w.tr.conn, w.session, name)
	return err == nil && set
}

// catchUp applies the events that were stored since its last call.
func (w *witness) catchUp() {
	for e, err := range w.tr.store.Read(w.tr.ctx, w.session, w.state.Seq+1) {
		if err == nil {
			err = w.state.Apply(e)
		}
		if err != nil {
			if w.tr.ctx.Err() == nil {
				w.wrong("the log cannot be read after %d: %v", w.state.Seq, err)
			}
			return
		}
	}
}

// patience is how long awaitReply waits for a log whose appends fail.
const patience = 30 * time.Second

// awaitReply waits until the log has the message_start of the reply that follows this many replies. It returns false if
// dead is closed first. It returns true if ctx or patience ends.
func (w *witness) awaitReply(ctx context.Context, before int, dead <-chan struct{}) bool {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !w.hasReply(before) {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return true
		case <-dead:
			return false
		}
	}
	return true
}

func (w *witness) hasReply(before int) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.catchUp()
	n := replies(w.state.Transcript())
	if t := w.turn(); t != nil && t.Streaming != "" {
		n++
	}
	return n > before
}

func (w *witness) turn() *loop.Turn {
	if w.state.Run == nil {
		return nil
	}
	return w.state.Run.Turn
}

// history lists the deliveries (+) and acknowledgements (-), by id and sequence.
func (w *witness) history() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return strings.Join(w.past, ", ")
}

// saw returns the violations.
func (w *witness) saw() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.wrongs
}
