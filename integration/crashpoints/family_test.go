package crashpoints_test

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/integration/internal/wire"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/extension"
)

// withAgent adds the tool agent, as a runner does.
type withAgent struct{ host.Toolbox }

func (t withAgent) Definitions(ctx context.Context) ([]schemas.ToolDefinition, error) {
	defs, err := t.Toolbox.Definitions(ctx)
	return append(append([]schemas.ToolDefinition{}, defs...), extension.Agent()), err
}

// agents returns a reply that calls the tool agent once with each of the arguments.
func agents(letter string, args ...string) scripted.Response {
	var all []schemas.ToolCall
	for i, a := range args {
		all = append(all, schemas.ToolCall{
			ID: fmt.Sprint(schemas.ToolAgent, i+1, letter), Name: schemas.ToolAgent, Arguments: json.RawMessage(a),
		})
	}
	return scripted.Calls("", all...)
}

// isChild reports whether a session is a sub-agent of a trial's session.
func isChild(session, parent string) bool { return strings.HasPrefix(session, parent+"-c") }

// Prompts of sub-agents start with one of these if their model fails, or streams until it is aborted.
const (
	failing = "fail"
	waiting = "wait"
)

// childModel returns the reply of a sub-agent's model.
func childModel(prompt string) driver.Model {
	reply := scripted.Text("from a child") // in chunks of six
	if prompt == failing {
		reply = scripted.Error("refused")
	}
	return (&scenario{replies: []scripted.Response{reply}, chunkSize: 6}).model()
}

// holdChild blocks the model of a sub-agent, as [trial.hold] does.
func (tr *trial) holdChild(ctx context.Context, p *process, prompt string) {
	tr.mu.Lock()
	tr.waiting[prompt] = true
	all := len(tr.waiting) == tr.scenario.children
	tr.mu.Unlock()
	if all {
		tr.atWork.fire()
	}
	tr.hold(ctx, p)
}

// promptOf returns the text of the first message.
func promptOf(messages schemas.Messages) string {
	if m, ok := messages[0].(*schemas.UserMessage); ok {
		return m.Content.JoinText()
	}
	return ""
}

// children returns the sessions of the sub-agents that a log has started, by the model's id of the call.
func children(log []schemas.Event) map[string]string {
	sessions := map[string]string{}
	for _, e := range log {
		if d, ok := e.Data.(*schemas.SubagentStart); ok {
			sessions[d.ToolCallID] = d.Session
		}
	}
	return sessions
}

// logs returns the logs of the session and of its sub-agents, by session.
func (tr *trial) logs(t *testing.T) map[string][]schemas.Event {
	t.Helper()
	logs := map[string][]schemas.Event{tr.session: system.LogOf(t, tr.store, tr.session)}
	for _, child := range children(logs[tr.session]) {
		logs[child] = system.LogOf(t, tr.store, child)
	}
	return logs
}

// answeredOnce checks that every sub-agent of a log was started once and reported its result once, and that its parent
// accepted the result once.
func answeredOnce(session string, logs map[string][]schemas.Event) (wrongs []string) {
	begun, ended := map[string]int{}, map[string]int{}
	for _, e := range logs[session] {
		switch d := e.Data.(type) {
		case *schemas.SubagentStart:
			begun[d.Session]++
		case *schemas.SubagentEnd:
			ended[d.Session]++
		}
	}
	for child, n := range begun {
		prompted, reported := 0, 0
		for _, e := range logs[child] {
			switch d := e.Data.(type) {
			case *schemas.CommandAccepted:
				if d.Kind == schemas.CommandSubagentPrompt {
					prompted++
				}
			case *schemas.SubagentReport:
				reported++
			}
		}
		if n != 1 || ended[child] != 1 || prompted != 1 || reported != 1 {
			wrongs = append(wrongs, fmt.Sprintf("sub-agent %s was begun %d times, prompted %d, has reported %d times and ended "+
				"%d times", child, n, prompted, reported, ended[child]))
		}
	}
	return wrongs
}

var childID = regexp.MustCompile(`[A-Za-z0-9_-]*-c[0-9]+-[0-9a-f]{12}`)

// nameless removes two things from a text that differ between runs: the session id of the sub-agent, which has a hash
// of the call's nonce, and whether the parent or the sub-agent was first to answer a call whose sub-agent was aborted.
func nameless(text string) string {
	if strings.HasPrefix(text, "The sub-agent's run ended: "+string(schemas.EndAbort)) {
		return loop.TextAborted
	}
	return childID.ReplaceAllString(text, "CHILD")
}

// passes has the witness of the sending session check a message.
func (tr *trial) passes(p point, m *wire.Message) {
	sender := p.session
	if p.kind != pointFamily {
		tr.witness(sender).sent(p.kind, m, nil)
		return
	}
	d, err := told(m)
	switch d := d.(type) {
	case *schemas.SubagentPrompt:
		sender = d.Parent.Session
	case *schemas.SubagentAbort:
		sender = d.Parent.Session
	case *schemas.SubagentResult:
		sender = d.Session
	}
	if w := tr.witness(sender); err != nil {
		w.wrong("%s: %v", m.Subject, err)
	} else {
		w.sent(p.kind, m, d)
	}
}

// told decodes the command in a message between a sub-agent and its parent.
func told(m *wire.Message) (schemas.CommandData, error) {
	session, kind, err := subjects.ParseCommand(m.Subject)
	if err != nil {
		return nil, err
	}
	header, err := nats.DecodeHeadersMsg(m.Header)
	if err != nil {
		return nil, err
	}
	c, err := codec.DecodeCommand(session, kind, header, m.Data, "none", time.Time{})
	return c.Data, err
}

// family checks that subagent_start is stored before the prompt is sent, subagent_aborted before the abort is sent, and
// the end of the sub-agent's run before its result is sent.
func (w *witness) family(m *wire.Message, d schemas.CommandData) {
	w.catchUp()
	child := func(link schemas.SubagentLink) *loop.Child { return w.state.Child(link.Call) }
	switch d := d.(type) {
	case *schemas.SubagentPrompt:
		// a parent that does not know yet that the sub-agent has answered sends the prompt again
		if call := w.state.Call(d.Parent.Call); call != nil && call.Subagent != "" {
			w.dispatched[call.Key] = true
			return
		}
	case *schemas.SubagentAbort:
		if c := child(d.Parent); c == nil || c.Abort != "" {
			return
		}
	case *schemas.SubagentResult:
		if p := w.state.Parent; p != nil && p.Ended {
			return
		}
	}
	w.wrong("%T is sent to %s when the log, at %d, does not bear it out", d, m.Subject, w.state.Seq)
}
