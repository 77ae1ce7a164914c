package simulation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/loopbus/loopbus/integration/internal/history"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// task is the task that a model gives to a sub-agent.
func task(r draw) json.RawMessage {
	background := r.percent(50)
	return json.RawMessage(fmt.Sprintf(`{"prompt":"task %d","background":%t,"join":%t}`, r.IntN(1000), background,
		background && r.percent(40)))
}

// outbox stores the commands that sessions send each other. It does not suppress duplicates.
type outbox struct{ *process }

func (o *outbox) Store(ctx context.Context, c schemas.Command) error {
	begun := time.Now()
	err := o.request(ctx, "store "+c.Session, func() error {
		o.record(toldBy(c, begun))
		o.queue.put(c, "")
		return nil
	})
	if acked := toldBy(c, begun); err == nil && c.Data.CommandKind() != schemas.CommandSubagentResult {
		acked.Acked, acked.Copies = time.Now(), 0
		o.record(acked)
	}
	return err
}

// Holds reports whether the queue has the command.
func (o *outbox) Holds(ctx context.Context, session string, kind schemas.CommandKind) (bool, error) {
	return ask(ctx, o.process, "holds "+session, func() (bool, error) {
		o.world.mu.Lock()
		defer o.world.mu.Unlock()
		return slices.ContainsFunc(o.queue.messages, func(m *message) bool {
			return m.cmd.Session == session && m.cmd.Data.CommandKind() == kind
		}), nil
	})
}

// toldBy returns a command that a session sends to another one, as history records it. A result that answers a call has
// no outcome in the parent's log, so it counts as not acknowledged.
func toldBy(c schemas.Command, sent time.Time) history.Command {
	cmd := history.Command{Session: c.Session, ID: c.ID, Kind: c.Data.CommandKind(), Sent: sent, Copies: 1}
	switch d := c.Data.(type) {
	case *schemas.SubagentPrompt:
		cmd.Text = d.Text
	case *schemas.SubagentResult:
		cmd.Text = d.Text
	}
	return cmd
}

// atWork reports whether the parent of a sub-agent will receive its result: the prompt is in the queue, or the
// sub-agent's session has something to do, or its result is in the queue, or the parent's next step is to send it a
// command. The caller holds the lock.
func (w *world) atWork(s *loop.State, c *loop.Child) bool {
	if child := w.sessions[c.Start.Session]; child != nil {
		if p := child.state.Parent; p != nil && !p.Reported {
			return true
		}
	}
	return slices.ContainsFunc(w.queue.messages, func(m *message) bool {
		switch d := m.cmd.Data.(type) {
		case *schemas.SubagentPrompt:
			return d.Parent == c.Link(s.Session)
		case *schemas.SubagentAbort:
			return d.Parent == c.Link(s.Session)
		case *schemas.SubagentResult:
			return m.cmd.Session == s.Session && d.Call == c.Start.Call
		}
		return false
	})
}

// withChildren adds a client for the session of each sub-agent: other clients may send commands to it, too.
func (w *world) withChildren(clients []*client) []*client {
	w.mu.Lock()
	ids := slices.Sorted(maps.Keys(w.sessions))
	w.mu.Unlock()
	for _, id := range ids {
		if !slices.ContainsFunc(clients, func(c *client) bool { return c.session == id }) {
			clients = append(clients, &client{process: w.newProcess("client of " + id), session: id})
		}
	}
	return clients
}
