package loop_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

var update = flag.Bool("update", false, "rewrite what the traces expect")

// TestTraces plays testdata/*.txtar. A file has prose about its subject, the inputs in "in", and the loop's output in
// "want"; testdata/README.md explains the format. -update rewrites "want": read the difference.
func TestTraces(t *testing.T) {
	t.Parallel()
	eachTrace(t, func(t *testing.T, path string, a *txtar.Archive, p *player) {
		if len(a.Files) == 1 && *update {
			a.Files = append(a.Files, txtar.File{Name: "want"})
		}
		if len(a.Files) != 2 || a.Files[0].Name != "in" || a.Files[1].Name != "want" || len(a.Comment) == 0 {
			t.Fatal("a trace is prose, then the files in and want")
		}
		p.play(string(a.Files[0].Data))
		p.checkLog()
		got := p.out.String()
		if *update {
			a.Files[1].Data = []byte(got)
			if err := os.WriteFile(path, txtar.Format(a), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if d := cmp.Diff(string(a.Files[1].Data), got); d != "" {
			t.Errorf("trace (-want +got):\n%s", d)
		}
	})
}

// eachTrace calls f for each trace, with a player that has played nothing.
func eachTrace(t *testing.T, f func(t *testing.T, path string, a *txtar.Archive, p *player)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join("testdata", "*.txtar"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("%d traces: %v", len(paths), err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			a, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f(t, path, a, &player{t: t, s: &loop.State{Session: "s1"}, now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)})
		})
	}
}

// player is a driver without a model, tools or a clock: all of these are in the trace.
type player struct {
	t      *testing.T
	s      *loop.State
	now    time.Time
	config schemas.RunConfig
	rules  loop.Rules
	died   uint64 // sequence at which the process died; 0 while one is alive
	log    []schemas.Event
	out    strings.Builder
}

func (p *player) play(in string) {
	p.t.Helper()
	for _, line := range strings.Split(in, "\n") {
		if line = strings.TrimSpace(line); line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fmt.Fprintf(&p.out, "> %s\n", line)
		if settings := p.line(line); !settings {
			p.carryOn()
		}
	}
}

// line carries out one line. settings reports that no step follows from it.
func (p *player) line(line string) (settings bool) {
	p.t.Helper()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "config":
		p.decode(rest, &p.config)
		return true
	case "rules":
		p.decode(rest, &p.rules)
		return true
	case "die":
		p.die()
		return true
	case "time":
		d, err := time.ParseDuration(rest)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		p.now = p.now.Add(d)
	case "reply":
		p.reply(rest)
	case "result":
		p.result(rest)
	case "child":
		p.child(rest)
	case "event":
		kind, payload, _ := strings.Cut(rest, " ")
		data, err := schemas.DecodeEventData(schemas.EventType(kind), []byte(payload))
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		p.append(data, "")
	case "torn":
		n, command, _ := strings.Cut(rest, " ")
		keep, err := strconv.Atoi(n)
		if err != nil {
			p.t.Fatalf("%s: %v", line, err)
		}
		p.command(command, keep)
		return true
	default:
		p.command(line, -1)
	}
	return false
}

func (p *player) die() {
	p.died = p.s.Seq
	p.out.WriteString("  the process dies\n")
}

// resume is what the next process does first: a reply that was being streamed will never be complete.
func (p *player) resume() {
	p.t.Helper()
	from := p.died
	if p.died = 0; from == 0 || p.s.Run == nil || p.s.Run.Turn == nil || p.s.Run.Turn.Streaming == "" {
		return
	}
	id := p.s.Run.Turn.Streaming
	partial := &schemas.AssistantMessage{StopReason: schemas.StopAborted}
	p.append(&schemas.MessageEnd{MessageID: id, Message: schemas.AnyMessage{Message: partial}, Interrupted: true}, "")
	p.append(&schemas.RunResumed{From: from, Reason: "while the model was streaming", MessageID: id}, "")
}

func (p *player) decode(raw string, into any) {
	p.t.Helper()
	if err := json.Unmarshal([]byte(raw), into); err != nil {
		p.t.Fatalf("%s: %v", raw, err)
	}
}

// command accepts a command: its kind, its id and its payload, which may be a plain text for the three kinds that have
// one. If keep is not negative it appends only the first keep events.
func (p *player) command(line string, keep int) {
	p.t.Helper()
	kind, rest, _ := strings.Cut(line, " ")
	id, payload, _ := strings.Cut(rest, " ")
	if payload == "" {
		payload = "{}"
	}
	if !strings.HasPrefix(payload, "{") {
		raw, err := json.Marshal(schemas.Input{Text: payload})
		if err != nil {
			p.t.Fatal(err)
		}
		payload = string(raw)
	}
	data, err := schemas.DecodeCommandData(schemas.CommandKind(kind), []byte(payload))
	if err != nil {
		p.t.Fatalf("%s: %v", line, err)
	}
	for len(p.s.Owed) > 0 { // what was decided before comes before
		p.step(loop.Next(p.s))
	}
	c := schemas.Command{ID: id, Session: "s1", Source: "desk", Data: data}
	events := loop.Accept(p.s, c, []byte(payload), p.rules)
	if len(events) == 0 {
		p.out.WriteString("  nothing\n")
	}
	for i, e := range events {
		if i == keep {
			p.die()
			return
		}
		p.append(e, id)
	}
}

// reply is a model's reply: words of the form name=value, and then a text.
func (p *player) reply(line string) {
	p.t.Helper()
	if p.s.Run == nil || p.s.Run.Turn == nil || p.s.Run.Turn.Reply != nil {
		p.t.Fatalf("reply %s: nobody asks the model; so far:\n%s", line, &p.out)
	}
	m := &schemas.AssistantMessage{StopReason: schemas.StopStop}
	end := &schemas.MessageEnd{MessageID: p.s.MessageID()}
	words := strings.Fields(line)
	for len(words) > 0 {
		name, value, ok := strings.Cut(words[0], "=")
		if !ok {
			break
		}
		switch words = words[1:]; name {
		case "stop":
			m.StopReason = schemas.StopReason(value)
		case "tokens":
			p.decode(value, &m.Usage.TotalTokens)
		case "retryable":
			p.decode(value, &end.Retryable)
		case "reason":
			end.TerminationReason = schemas.TerminationReason(value)
		case "calls":
			m.StopReason = orStop(m.StopReason)
			for _, call := range strings.Split(value, ",") {
				id, tool, _ := strings.Cut(call, ":")
				m.Content = append(m.Content, toolCall(id, tool))
			}
		default:
			p.t.Fatalf("reply: no %s", name)
		}
	}
	if text := strings.Join(words, " "); m.Failed() {
		m.ErrorMessage = text
	} else if text != "" {
		m.Content = append(schemas.Contents{schemas.Text{Text: text}}, m.Content...)
	}
	if streaming := p.s.Run.Turn.Streaming; streaming != "" {
		end.MessageID = streaming
	} else {
		p.append(&schemas.MessageStart{MessageID: end.MessageID, Role: schemas.RoleAssistant}, "")
	}
	end.Message = schemas.AnyMessage{Message: m}
	p.append(end, "")
}

func orStop(r schemas.StopReason) schemas.StopReason {
	if r == schemas.StopStop {
		return schemas.StopToolUse
	}
	return r
}

// result is a tool's result: the model's id of the call, then error=true or terminate=true, and a text.
func (p *player) result(line string) {
	p.t.Helper()
	id, text, _ := strings.Cut(line, " ")
	if p.s.Run == nil || p.s.Run.Turn == nil {
		p.t.Fatalf("result %s: no turn is under way; so far:\n%s", line, &p.out)
	}
	end := &schemas.ToolExecutionEnd{ToolCallID: id}
	for i := range p.s.Run.Turn.Calls {
		if c := &p.s.Run.Turn.Calls[i]; c.ToolCall.ID == id && c.Key != "" && c.End == nil {
			end.Call, end.ToolName = c.Key, c.ToolCall.Name
			break
		}
	}
	text, end.IsError = strings.CutPrefix(text, "error=true ")
	text, terminate := strings.CutPrefix(text, "terminate=true ")
	end.Result = schemas.TextResult(text)
	end.Result.Terminate = terminate
	p.append(end, "")
}

func (p *player) append(data schemas.EventData, cause string) {
	p.t.Helper()
	e := p.s.Envelope(data)
	e.Time, e.CausationID = p.now, cause
	fmt.Fprintf(&p.out, "%4d  %s\n", e.Seq, describe(data))
	if err := p.s.Apply(e); err != nil {
		p.t.Fatal(err)
	}
	p.log = append(p.log, e)
}

// carryOn carries out steps until one waits for the model, a tool, a hook or a message.
func (p *player) carryOn() {
	p.t.Helper()
	p.resume()
	for range 100 {
		if r := p.s.Run; r != nil && r.Turn != nil && r.Turn.Streaming != "" { // a driver asks for no step meanwhile
			if r.Abort != nil {
				p.wait("the model, which is told to stop")
			} else {
				p.wait("the model")
			}
			return
		}
		if !p.step(loop.Next(p.s)) {
			return
		}
	}
	p.t.Fatal("the loop does not come to rest")
}

// checkLog wants the log, folded again, to give the state; and the same for each of its prefixes, saved and loaded.
func (p *player) checkLog() {
	p.t.Helper()
	s := &loop.State{}
	for _, e := range p.log {
		loaded := &loop.State{}
		if err := json.Unmarshal(marshal(p.t, s), loaded); err != nil {
			p.t.Fatal(err)
		}
		if s = loaded; s.Apply(e) != nil {
			p.t.Fatalf("event %d does not apply", e.Seq)
		}
	}
	if d := cmp.Diff(string(marshal(p.t, p.s)), string(marshal(p.t, s))); d != "" && len(p.log) > 0 {
		p.t.Errorf("state of the log, folded anew (-live +folded):\n%s", d)
	}
}
