package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// gated is a model whose calls wait until the test releases them or they are cancelled.
type gated struct {
	driver.Model
	gate chan struct{}
}

func (g gated) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		select {
		case <-g.gate:
		case <-ctx.Done():
		}
		g.Model.Stream(ctx, req)(yield)
	}
}

func (g gated) open(t *testing.T) {
	t.Helper()
	select {
	case g.gate <- struct{}{}:
	case <-time.After(system.Deadline):
		t.Fatal("the model was not called")
	}
}

// liveView is the view of a session that a client has with plain NATS.
type liveView struct {
	*textClient
	events  []frame // each with its attributes as headers
	unseen  []frame // the newest events, which the test has not read yet
	updates []frame
	acks    map[string]string // by reply subject
}

// see reads messages until the test has the event, update or acknowledgement that it waits for.
func (l *liveView) see(last func(f frame) bool) frame {
	l.t.Helper()
	for {
		for len(l.unseen) > 0 {
			f := l.unseen[0]
			l.unseen = l.unseen[1:]
			if last(f) {
				return f
			}
		}
		f := l.next()
		switch {
		case strings.HasSuffix(f.subject, ".event"):
			l.unseen = l.split(f)
			l.events = append(l.events, l.unseen...)
			continue
		case strings.HasSuffix(f.subject, ".update"):
			l.updates = append(l.updates, f)
		default:
			l.acks[f.subject] = f.payload
		}
		if last(f) {
			return f
		}
	}
}

// split splits a commit into its events as docs/protocol.md describes.
func (l *liveView) split(commit frame) (events []frame) {
	l.t.Helper()
	if got := commit.get("Content-Type"); got != "application/cloudevents-batch+json" {
		l.t.Fatalf("unexpected message of type %q on %s", got, commit.subject)
	}
	var batch []map[string]json.RawMessage
	if err := json.Unmarshal([]byte(commit.payload), &batch); err != nil {
		l.t.Fatalf("%v: %s", err, commit.payload)
	}
	before := map[string]string{}
	for _, members := range batch {
		f := frame{subject: commit.subject, header: map[string][]string{}, payload: string(members["data"])}
		delete(members, "data")
		for name, raw := range members {
			var value string
			if err := json.Unmarshal(raw, &value); err != nil {
				l.t.Fatalf("%s: %v", name, err)
			}
			f.header[name] = []string{value}
		}
		for _, name := range []string{"time", "runid", "turnid", "correlationid", "traceparent"} {
			if _, ok := f.header[name]; !ok {
				f.header[name] = []string{before[name]}
			}
			before[name] = f.get(name)
		}
		if _, ok := f.header["causationid"]; !ok {
			f.header["causationid"] = f.header["correlationid"]
		}
		events = append(events, f)
	}
	if want := commit.get("Loopbus-Commit"); want != spanOf(events) {
		l.t.Errorf("commit %q has the events %s", want, spanOf(events))
	}
	return events
}

// spanOf returns the header of a commit with these events.
func spanOf(events []frame) string {
	_, first, _ := strings.Cut(events[0].get("id"), "/")
	_, last, _ := strings.Cut(events[len(events)-1].get("id"), "/")
	return "v2 " + first + "-" + last
}

// event waits for an event of a type whose payload contains a text.
func (l *liveView) event(name, text string) frame {
	l.t.Helper()
	return l.see(func(f frame) bool {
		return f.get("type") == "dev.loopbus."+name+".v1" && strings.Contains(f.payload, text)
	})
}

func watchText(t *testing.T, s *system.System, session string) *liveView {
	t.Helper()
	l := &liveView{textClient: dialText(t, s.URL), acks: map[string]string{}}
	l.sub("_INBOX.me.*")
	l.sub("agent.live." + session + ".>")
	return l
}

// acknowledged waits for the acknowledgements of commands and checks that the stream has sent them.
func (l *liveView) acknowledged(replies ...string) {
	l.t.Helper()
	for _, reply := range replies {
		if l.acks[reply] == "" {
			l.see(func(frame) bool { return l.acks[reply] != "" })
		}
		var ack struct {
			Stream string `json:"stream"`
			Seq    uint64 `json:"seq"`
		}
		if err := json.Unmarshal([]byte(l.acks[reply]), &ack); err != nil || ack.Stream != "AGENT_CMD" || ack.Seq == 0 {
			l.t.Errorf("%s got %s, want the acknowledgement of AGENT_CMD", reply, l.acks[reply])
		}
	}
}

// A client without a library has a conversation: it sends prompt, steer and follow_up as plain text, then an abort, and
// receives the acknowledgement of the stream for each.
func TestAnyClient(t *testing.T) {
	t.Parallel()
	model, err := scripted.NewScripts(scripted.Options{ChunkSize: 4}, scripted.Script{
		Responses: []scripted.Response{
			scripted.Calls("I shall look.", schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"a.go"}`)}),
			scripted.Text("Only a.go."), scripted.Text("That is one."), scripted.Text("never said"),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	g := gated{model, make(chan struct{})}
	streaming := system.NewGated(6, g)
	s := system.StartAlone(t, system.Options{Model: streaming})
	l := watchText(t, s, "s1")

	l.pub("agent.cmd.s1.prompt", "_INBOX.me.1", "list the files")
	l.event("turn_start", "")
	l.pub("agent.cmd.s1.steer", "_INBOX.me.2", "only Go files")
	l.event("command_accepted", `"kind":"steer"`)
	l.pub("agent.cmd.s1.follow_up", "_INBOX.me.3", "and count them")
	l.event("command_accepted", `"kind":"follow_up"`)
	g.open(t)
	l.see(func(f frame) bool { return strings.HasSuffix(f.subject, ".update") })
	streaming.Release()
	for range 2 {
		g.open(t)
	}
	l.event("agent_end", `"terminationReason":"no_tool_calls"`)
	l.acknowledged("_INBOX.me.1", "_INBOX.me.2", "_INBOX.me.3")

	l.pub("agent.cmd.s1.prompt", "_INBOX.me.4", "again")
	l.event("turn_start", "")
	l.pub("agent.cmd.s1.abort", "_INBOX.me.5", "{}")
	l.event("agent_end", `"terminationReason":"abort_signal"`)
	l.acknowledged("_INBOX.me.4", "_INBOX.me.5")

	log := s.LogOf(t, "s1")
	want := []string{"list the files", "only Go files", "and count them", "again"}
	if d := cmp.Diff(want, system.Said(log)); d != "" {
		t.Errorf("user messages (-want +got):\n%s", d)
	}
	if got := system.Replied(log); !slices.Equal(got[:3], []string{"I shall look.", "Only a.go.", "That is one."}) {
		t.Errorf("replies %q", got)
	}
	checkLive(t, l, log)
	s.EmptyInbox(t)
}

// checkLive compares the live messages with the log: every event once, in order, with its attributes.
func checkLive(t *testing.T, l *liveView, log []schemas.Event) {
	t.Helper()
	if len(l.events) != len(log) {
		t.Fatalf("saw %d events of %d", len(l.events), len(log))
	}
	for i, f := range l.events {
		e := log[i]
		for name, want := range map[string]string{
			"specversion": "1.0", "id": fmt.Sprintf("s1/%d", i+1), "source": e.Source,
			"type": "dev.loopbus." + string(e.Type()) + ".v1", "time": e.Time.Format(time.RFC3339Nano), "runid": e.RunID,
			"turnid":        e.TurnID,
			"correlationid": e.CorrelationID, "causationid": e.CausationID, "traceparent": e.TraceParent,
		} {
			if got := f.get(name); got != want {
				t.Errorf("event %d: %s is %q, want %q", i+1, name, got, want)
			}
		}
		if !json.Valid([]byte(f.payload)) {
			t.Errorf("event %d: payload %q", i+1, f.payload)
		}
	}
	if len(l.updates) == 0 {
		t.Error("saw no update")
	}
	for _, f := range l.updates {
		if got := f.get("ce-type"); got != "dev.loopbus.message_update.v1" || !json.Valid([]byte(f.payload)) {
			t.Errorf("update %s: type %q, payload %s", f.get("ce-id"), got, f.payload)
		}
	}
}

// A command works in every documented form, and so do the forms of a client that sends a command twice.
func TestAnyClientForms(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: &rehearsal.Model{}})
	const attributes = `"specversion":"1.0","id":"c9","source":"/me","type":"dev.loopbus.prompt.v1"`
	for _, c := range []struct {
		name    string
		payload string
		headers []string
		command string // id that the command must have, if the client sets it
	}{
		{"plain text", "list the files", nil, ""},
		{"bare JSON", `{"text":"list the files"}`, nil, ""},
		{"bare JSON with an id", `{"id":"c9","text":"list the files"}`, nil, "c9"},
		{"structured CloudEvent", `{` + attributes + `,"data":{"text":"list the files"}}`, nil, "c9"},
		{"structured CloudEvent with content type", `{` + attributes + `,"data":{"text":"list the files"}}`,
			[]string{"Content-Type: application/cloudevents+json"}, "c9"},
		{"binary CloudEvent", `{"text":"list the files"}`,
			[]string{"ce-specversion: 1.0", "ce-id: c9", "ce-source: /me", "ce-type: dev.loopbus.prompt.v1"}, "c9"},
		{"binary CloudEvent with plain text", "list the files", []string{"ce-specversion: 1.0", "ce-id: c9", "ce-source: /me",
			"ce-type: dev.loopbus.prompt.v1", "ce-datacontenttype: text/plain"}, "c9"},
		{"plain text with a message id", "list the files", []string{"Nats-Msg-Id: c9-plain"}, "c9-plain"},
	} {
		t.Run(c.name, func(t *testing.T) {
			session := strings.ReplaceAll(strings.ReplaceAll(c.name, " ", "-"), "_", "-")
			l := watchText(t, s, session)
			var sent []string
			for _, reply := range []string{"_INBOX.me.1", "_INBOX.me.2"} {
				if c.headers == nil {
					l.pub("agent.cmd."+session+".prompt", reply, c.payload)
				} else {
					l.hpub("agent.cmd."+session+".prompt", reply, c.payload, c.headers...)
				}
				sent = append(sent, reply)
				if c.command == "" {
					break // without an id, the stream stores two commands
				}
			}
			end := l.event("agent_end", "no_tool_calls") // before the acknowledgements: the run may end first
			l.acknowledged(sent...)
			if got := end.get("correlationid"); c.command != "" && got != c.command {
				t.Errorf("the run belongs to command %q, want %q", got, c.command)
			}
			s.EmptyInbox(t)
			if got := system.Said(s.LogOf(t, session)); !slices.Equal(got, []string{"list the files"}) {
				t.Errorf("user messages %q", got)
			}
		})
	}
}
