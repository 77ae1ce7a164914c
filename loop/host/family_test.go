package host_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// errDied is the error of everything in a process that has died.
var errDied = errors.New("the process died")

// village is a deployment in memory: one process at a time delivers the messages of the inboxes in order. It dies at
// the point at, the write of an event or of a command, before that is stored or after it; the next process continues.
type village struct {
	t      *testing.T
	store  *eventstore.Memory
	inbox  []schemas.Command
	points int
	at     int
	after  bool
	dead   atomic.Bool
	behind bool     // what was being delivered when the process died comes behind what has waited
	log    []string // what was delivered, for the text of a failure
}

// point is a point to die at. store is called if the process dies after it, or not at all.
func (v *village) point(store func() error) error {
	if v.dead.Load() {
		return errDied
	}
	v.points++
	if v.points != v.at {
		return store()
	}
	if v.after {
		if err := store(); err != nil {
			v.t.Error(err)
		}
	}
	v.dead.Store(true)
	return errDied
}

type villageLog struct {
	*eventstore.Log
	v *village
}

func (l villageLog) Append(ctx context.Context, e schemas.Event) error {
	return l.v.point(func() error { return errors.Join(l.Log.Append(ctx, e), l.Log.Flush(ctx)) })
}

func (l villageLog) Flush(ctx context.Context) error {
	if l.v.dead.Load() {
		return errDied
	}
	return l.Log.Flush(ctx)
}

func (l villageLog) Confirm(ctx context.Context, _ time.Time) error { return l.Flush(ctx) }

func (v *village) Store(_ context.Context, c schemas.Command) error {
	return v.point(func() error { v.inbox = append(v.inbox, c); return nil })
}

func (v *village) Holds(_ context.Context, session string, kind schemas.CommandKind) (bool, error) {
	return slices.ContainsFunc(v.inbox, func(c schemas.Command) bool {
		return c.Session == session && c.Data.CommandKind() == kind
	}), nil
}

type familyBox struct{}

func (familyBox) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return []schemas.ToolDefinition{{Name: schemas.ToolAgent}, {Name: "echo"}}, nil
}

func (v *village) process(model driver.Model) *host.Host {
	v.dead.Store(false)
	return host.New(v.options(model, func(_ string, log host.SessionLog) host.SessionLog { return log }))
}

// options returns the options of a process, whose logs wrap wraps.
func (v *village) options(model driver.Model, wrap func(string, host.SessionLog) host.SessionLog) host.Options {
	return host.Options{
		Open: func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := v.store.Open(ctx, session)
			return wrap(session, villageLog{log, v}), err
		},
		Deps: driver.Deps{Model: model, Tools: looptest.NewQueue(), Outbox: v,
			Nonce: func() string { return "NONCE" }, Source: "/loopbus/runner/test",
			AbortGrace: time.Millisecond},
		Toolbox: familyBox{}, Defaults: schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}},
	}
}

// live delivers everything, including the messages that follow. A message is delivered if its process has not died.
func (v *village) live(model driver.Model, commands []schemas.Command) {
	v.t.Helper()
	h := v.process(model)
	for v.inbox = slices.Clone(commands); len(v.inbox) > 0; {
		c := v.inbox[0]
		v.log = append(v.log, c.Session+" "+c.ID)
		err := h.Deliver(v.t.Context(), c, nil)
		switch {
		case v.dead.Load():
			v.log = append(v.log, "dies")
			if h = v.process(model); v.behind && len(v.inbox) > 1 {
				v.inbox[0], v.inbox[1] = v.inbox[1], v.inbox[0]
			}
		case err != nil:
			v.t.Fatalf("deliver %s to %s: %v", c.ID, c.Session, err)
		default:
			v.inbox = slices.Delete(v.inbox, 0, 1)
		}
	}
}

// states returns the states of all sessions, by id.
func (v *village) states() map[string]*loop.State {
	states := map[string]*loop.State{}
	for left := []string{"s1"}; len(left) > 0; left = left[1:] {
		s := &loop.State{Session: left[0]}
		for _, e := range v.events(s.Session) {
			if err := s.Apply(e); err != nil {
				v.t.Fatal(err)
			}
			if d, ok := e.Data.(*schemas.SubagentStart); ok {
				left = append(left, d.Session)
			}
		}
		states[s.Session] = s
	}
	return states
}

func (v *village) events(session string) (events []schemas.Event) {
	log, err := v.store.Open(v.t.Context(), session)
	if err != nil {
		v.t.Fatal(err)
	}
	for e, err := range log.Read(v.t.Context(), 1) {
		if err != nil {
			v.t.Fatal(err)
		}
		events = append(events, e)
	}
	return events
}

// check tests what holds for every family when nothing is left to do.
func (v *village) check() {
	v.t.Helper()
	for id, s := range v.states() {
		open, ended, calls, runs := map[string]int{}, map[string]int{}, map[schemas.CallKey]int{}, 0
		for _, e := range v.events(id) {
			switch d := e.Data.(type) {
			case *schemas.SubagentStart:
				open[d.Session]++
			case *schemas.SubagentEnd:
				ended[d.Session]++
			case *schemas.ToolExecutionStart:
				calls[schemas.NewCallKey(e.Seq)]++
			case *schemas.ToolExecutionEnd:
				calls[d.Call]--
			case *schemas.AgentStart:
				if s.Parent != nil && slices.Contains(d.Inputs, s.Parent.Link.PromptID()) {
					runs++
				}
			}
		}
		switch {
		case s.Run != nil || len(s.Children) > 0 || len(s.Prompts)+len(s.FollowUp) > 0 || len(s.Owed) > 0:
			v.t.Errorf("%s does not rest: run %v, %d children", id, s.Run != nil, len(s.Children))
		case id != "s1" && s.Parent != nil && !s.Parent.Reported:
			v.t.Errorf("%s has not reported", id)
		case runs > 1:
			v.t.Errorf("%s has run %d times for its parent", id, runs)
		}
		for child, n := range open {
			if n != 1 || ended[child] != 1 {
				v.t.Errorf("%s: child %s has begun %d times and ended %d times", id, child, n, ended[child])
			}
		}
		for call, n := range calls {
			if n != 0 {
				v.t.Errorf("%s: call %s has begun and ended, difference %d", id, call, n)
			}
		}
	}
}

// scripted answers the first message of a session by its text: "agent {…} {…}" are calls of the tool agent, "echo" is a
// call that no worker answers, and any other text is the reply. After results it replies "done".
func scripted(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
	reply := looptest.Say("done")
	if m, ok := req.Messages[len(req.Messages)-1].(*schemas.UserMessage); ok {
		text := m.Content.JoinText()
		verb, rest, _ := strings.Cut(text, " ")
		switch verb {
		case "agent":
			reply = &schemas.AssistantMessage{StopReason: schemas.StopToolUse}
			for d := json.NewDecoder(strings.NewReader(rest)); d.More(); {
				var args json.RawMessage
				if err := d.Decode(&args); err != nil {
					return nil, err
				}
				reply.Content = append(reply.Content, schemas.ToolCall{
					ID: fmt.Sprint("t", len(reply.Content)), Name: schemas.ToolAgent, Arguments: args,
				})
			}
		case "echo":
			reply = looptest.CallTool("t1")
		default:
			reply = looptest.Say("said " + text)
		}
	}
	reply.Usage = schemas.Usage{Output: 1, TotalTokens: 1}
	return reply, nil
}

// families are the scripts, and what the root's log must have in common wherever a process dies.
var families = map[string]struct {
	prompt   string
	commands []schemas.CommandData
	atOnce   bool // the commands wait behind the prompt
	sessions int
	tokens   int64 // that the root has used, with its descendants; 0 is not looked at
	results  []string
	messages []string
}{
	"waiting": {prompt: `agent {"prompt":"hi"}`, sessions: 2, tokens: 3, results: []string{"said hi"}},
	"side by side": {prompt: `agent {"prompt":"a"} {"prompt":"b"} {"prompt":"c"}`, sessions: 4, tokens: 5,
		results: []string{"said a", "said b", "said c"}},
	"background": {prompt: `agent {"prompt":"a","background":true}`, sessions: 2, tokens: 4,
		results: []string{"The sub-agent works in session"}, messages: []string{"The sub-agent (session"}},
	"joined": {prompt: `agent {"prompt":"a","background":true,"join":true}`, sessions: 2, tokens: 4,
		results: []string{"The sub-agent works in session"}, messages: []string{"The sub-agent (session"}},
	"grandchildren": {prompt: `agent {"prompt":"agent {\"prompt\":\"a\"} {\"prompt\":\"b\",\"background\":true}"}`,
		sessions: 4, tokens: 7, results: []string{"said The sub-agent (session"}},
	"aborted": {prompt: `agent {"prompt":"echo"} {"prompt":"echo","background":true}`,
		commands: []schemas.CommandData{&schemas.Abort{}}, sessions: 3},
	"aborted at rest": {prompt: `agent {"prompt":"echo","background":true}`,
		commands: []schemas.CommandData{&schemas.Abort{}}, sessions: 2},
	"grandchildren aborted": {
		prompt:   `agent {"prompt":"agent {\"prompt\":\"echo\"} {\"prompt\":\"echo\",\"background\":true}"}`,
		commands: []schemas.CommandData{&schemas.Abort{}}, sessions: 4,
	},
	"aborted at once": {prompt: `agent {"prompt":"echo"} {"prompt":"echo","background":true}`,
		commands: []schemas.CommandData{&schemas.Abort{}}, atOnce: true},
}

var every = flag.Int("every", 8, "let families die at every so many points; 1 is at each")

// Wherever a process dies, each child gets one prompt, answers once, and its call has one result.
func TestFamiliesSurviveEveryCrash(t *testing.T) {
	t.Parallel()
	for name, f := range families {
		t.Run(strings.ReplaceAll(name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			play := func(at int, after bool) *village {
				v := &village{t: t, store: eventstore.NewMemory(), at: at, after: after, behind: f.atOnce}
				commands := []schemas.Command{looptest.Command("p1", looptest.Prompt(f.prompt))}
				for i, c := range f.commands {
					if !f.atOnce {
						v.live(looptest.ModelFunc(scripted), commands)
						commands = nil
					}
					commands = append(commands, looptest.Command(fmt.Sprint("c", i), c))
				}
				v.live(looptest.ModelFunc(scripted), commands)
				if f.atOnce { // the first has found nothing to abort where it came before the prompt
					v.live(looptest.ModelFunc(scripted), []schemas.Command{looptest.Command("late", new(schemas.Abort))})
				}
				v.check()
				states := v.states()
				if len(states) != f.sessions && f.sessions > 0 {
					t.Errorf("%d sessions, want %d", len(states), f.sessions)
				}
				if used := states["s1"].Usage.TotalTokens; f.tokens > 0 && used != f.tokens {
					t.Errorf("%d tokens are counted, want %d", used, f.tokens)
				}
				if f.commands == nil {
					results, messages := said(states["s1"])
					samePrefixes(t, "results", f.results, results)
					samePrefixes(t, "messages", f.messages, messages[1:])
				}
				if t.Failed() {
					t.Fatalf("died at point %d, after it: %v\n%s", at, after, strings.Join(v.log, "\n"))
				}
				return v
			}
			points := play(0, false).points
			if points < 20 {
				t.Fatalf("%d points", points)
			}
			for at := 1 + rand.IntN(*every); at <= points; at += *every {
				play(at, false)
				play(at, true)
			}
		})
	}
}

// said returns the texts of the results and of the user messages of a session.
func said(s *loop.State) (results, messages []string) {
	for _, m := range s.Transcript() {
		switch m := m.(type) {
		case *schemas.ToolResultMessage:
			results = append(results, m.Content.JoinText())
		case *schemas.UserMessage:
			messages = append(messages, m.Content.JoinText())
		}
	}
	return results, messages
}

func samePrefixes(t *testing.T, what string, want, got []string) {
	t.Helper()
	if !slices.EqualFunc(want, got, func(w, g string) bool { return strings.HasPrefix(g, w) }) {
		t.Errorf("%s %q, want %q", what, got, want)
	}
}
