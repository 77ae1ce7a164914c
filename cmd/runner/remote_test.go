package main

import (
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// slowScript streams the beginning of a reply and then nothing for a long time.
const slowScript = `[{"events":[{"type":"start"},{"type":"text_start"},{"type":"text_delta","delta":"half"},
	{"delayMs":600000},{"type":"done"}],"message":{"content":[{"type":"text","text":"half"}]}}]`

// A one-shot with --nats joins nothing: the runner that is there drives its session, with the model that was set by
// command, and it is the only runner that answers.
func TestOneShotWithNATSIsAClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runner("r1", `[{"text":"said by r1"}]`)
	p := start(t, nil, "--nats", w.url, "--session", "s1", "--prompt", "go").wantExit(0)
	if got := p.stdout.String(); !strings.Contains(got, "you: go\nsaid by r1\nsession s1: no_tool_calls after 1 turn,") {
		t.Errorf("the run shows:\n%s", got)
	}
	p = start(t, nil, "run", "hello", "--nats", w.url, "--session", "s1", "--model", "rehearsal", "--json").wantExit(0)
	if got := p.stdout.String(); !strings.Contains(got, "agent_end.v1") || strings.Contains(got, "said by r1") {
		t.Errorf("the model was not changed:\n%s", got)
	}
	for _, e := range w.until("s1", 2, schemas.EventAgentEnd) {
		if e.Source != "/loopbus/runner/r1" {
			t.Errorf("event %d is of %s", e.Seq, e.Source)
		}
	}
	eventually(t, "only r1 is listed", func() bool { // its entry may have expired where it could not be renewed in time
		var listed struct{ ID string }
		out, err := w.listed("list", "--json")
		return err == nil && json.Unmarshal([]byte(out), &listed) == nil && listed.ID == "r1"
	})
}

func TestOneShotWithNATSRefusesWhatRunnersDecide(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"--approve bash", "--tools ls", "--max-turns 3", "--root .", "--http off"} {
		p := start(t, nil, append(strings.Fields(args), "--nats", "nats://127.0.0.1:1", "--prompt", "go")...).wantExit(2)
		flag, _, _ := strings.Cut(args, " ")
		if got := p.stderr.String(); !strings.Contains(got, flag+": is for the runners at --nats to decide") {
			t.Errorf("%s: %s", args, got)
		}
	}
	p := start(t, []string{"LOOPBUS_MAX_TURNS=3"}, "--nats", "nats://127.0.0.1:1", "--prompt", "go").wantExit(1)
	if got := p.stderr.String(); !strings.Contains(got, "ignored, because the runners at --nats decide: "+
		"LOOPBUS_MAX_TURNS\n") || !strings.Contains(got, "127.0.0.1:1: connect: connection refused") {
		t.Errorf("stderr has %q", got)
	}
	p = start(t, nil, "run", "go", "--abort-on-exit").wantExit(2)
	if got := p.stderr.String(); !strings.Contains(got, "--abort-on-exit: needs --nats") {
		t.Errorf("without --nats: %q", got)
	}
}

func TestInterruptedClientLeavesTheRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runner("r1", slowScript)
	p := start(t, nil, "run", "go", "--nats", w.url, "--session", "s1")
	eventually(t, "the reply is streamed", func() bool { return strings.Contains(p.stdout.String(), "half") })
	p.signal(os.Interrupt)
	p.wantExit(130)
	if got := p.stderr.String(); !strings.Contains(got, "the run of session s1 continues") ||
		!strings.Contains(got, "replay show s1 --follow --nats "+w.url) {
		t.Errorf("stderr has %q", got)
	}
	// The run is under way still: it can be aborted.
	q := start(t, nil, "run", "more", "--nats", w.url, "--session", "s2", "--abort-on-exit")
	eventually(t, "the other reply is streamed", func() bool { return strings.Contains(q.stdout.String(), "half") })
	q.signal(os.Interrupt)
	q.wantExit(130)
	if got := q.stderr.String(); !strings.Contains(got, "the run of session s2 is aborted") {
		t.Errorf("stderr has %q", got)
	}
	log := w.until("s2", 1, schemas.EventAgentEnd)
	if end := log[len(log)-1].Data.(*schemas.AgentEnd); end.TerminationReason != schemas.EndAbort {
		t.Errorf("s2 ended with %s", end.TerminationReason)
	}
	for e, err := range w.store.Read(t.Context(), "s1", 1) {
		if err != nil || e.Type() == schemas.EventAgentEnd {
			t.Errorf("s1 has %v, %v", e.Type(), err)
		}
	}
}

const askingScript = `[{"toolCalls":[{"name":"bash","arguments":{"command":"echo approved"}}]},{"text":"done"}]`

// Where nobody can answer, the one-shot says so and ends; where others can, it says how.
func TestApprovalsInTheOneShot(t *testing.T) {
	t.Parallel()
	script := write(t, "script.json", askingScript)
	p := start(t, nil, "run", "go", "--model", "scripted", "--script", script, "--approve", "bash").wantExit(3)
	if got := p.stdout.String() + p.stderr.String(); !strings.Contains(got, "waits for approval: bash {") ||
		!strings.Contains(got, "nobody here can answer") || strings.Contains(got, "| approved") {
		t.Errorf("it said:\n%s", got)
	}
	p = start(t, nil, "run", "go", "--model", "scripted", "--script", script, "--approve", "bash", "--approval-timeout",
		"100ms").wantExit(0)
	if got := p.stdout.String(); !strings.Contains(got, ": denied by time") {
		t.Errorf("it said:\n%s", got)
	}
	w := newWorld(t)
	start(t, nil, "--nats", w.url, "--id", "r1", "--model", "scripted", "--script", script, "--approve", "bash", "--http",
		"127.0.0.1:0", "--log-json").ready()
	p = start(t, nil, "run", "go", "--nats", w.url, "--session", "s1")
	eventually(t, "it says how to answer", func() bool {
		return strings.Contains(p.stdout.String(), "nats pub agent.cmd.s1.approve '{\"call\":\"c")
	})
	_, rest, _ := strings.Cut(p.stdout.String(), "nats pub agent.cmd.s1.approve '")
	answer, _, _ := strings.Cut(rest, "'")
	if !strings.Contains(answer, `","digest":"sha256:`) {
		t.Errorf("the answer that it says is %s", answer)
	}
	command(t, w.conn.NATS(), "agent.cmd.s1.approve", answer)
	p.wantExit(0)
	if got := p.stdout.String(); !strings.Contains(got, ": approved") || !strings.Contains(got, "| approved\n") {
		t.Errorf("it said:\n%s", got)
	}
}

// On a terminal somebody is asked; here script(1) is the terminal.
func TestApprovalsOnATerminal(t *testing.T) {
	t.Parallel()
	file := write(t, "script.json", askingScript)
	for answer, want := range map[string]string{"y\n": "| approved", "n not now\n": "not now"} {
		p := atTerminal(t, "run go --model scripted --script "+file+" --approve bash")
		p.sees("approve it?")
		p.types(answer)
		p.sees(want)
		p.ends()
	}
}

func TestRunnersWithOtherSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	common := []string{"--nats", w.url, "--model", "rehearsal", "--http", "127.0.0.1:0", "--log-json"}
	one := start(t, nil, append(common, "--id", "r1", "--approve", "bash")...).ready()
	two := start(t, nil, append(common, "--id", "r2")...).ready()
	const says = "another runner has different settings, sessions behave as the runner that drives them is configured"
	if got := one.logged(says, "runner"); got != "r2" {
		t.Errorf("r1 warns of %s", got)
	}
	if got := two.logged(says, "runner"); got != "r1" {
		t.Errorf("r2 warns of %s", got)
	}
	out, err := w.listed("list")
	if err != nil || !strings.Contains(out, "The settings differ") {
		t.Errorf("the list is %s, %v", out, err)
	}
	strict := start(t, nil, append(common, "--id", "r3", "--strict-fleet", "--approve", "bash")...).wantExit(1)
	if got := strict.stderr.String(); !strings.Contains(got, "--strict-fleet: runner r2 has different settings") {
		t.Errorf("stderr has %q", got)
	}
	two.signal(os.Interrupt)
	two.wantExit(0)
	start(t, nil, append(common, "--id", "r4", "--strict-fleet", "--approve", "bash")...).ready()
}

// Whoever may ask a service chooses where the answer goes, and an answer names an id. It is no runner's.
func TestAnswersAreNoRunnersWithOtherSettings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	common := []string{"--nats", w.url, "--model", "rehearsal", "--http", "127.0.0.1:0", "--log-json"}
	start(t, nil, append(common, "--id", "r1")...).ready()
	nc := w.conn.NATS()
	service, err := micro.AddService(nc, micro.Config{Name: "ghosts", Version: "1.0.0"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = service.Stop() }()
	answered := make(chan bool, 10)
	_, err = nc.Subscribe("agent.svc.runner.settings", func(m *nats.Msg) {
		if strings.Contains(string(m.Data), `"asks":true`) {
			_ = nc.PublishRequest("$SRV.INFO.ghosts", m.Subject, nil)
		} else if strings.Contains(string(m.Data), "ghosts") {
			answered <- true
		}
	})
	if err := errors.Join(err, nc.Flush()); err != nil {
		t.Fatal(err)
	}
	start(t, nil, append(common, "--id", "r2", "--strict-fleet")...).ready()
	bustest.Within(t, answered)
}

func TestServingSaysThatTheDefaultModelHasNoKey(t *testing.T) {
	t.Parallel()
	p := startServing(t, "--model", "anthropic/claude-sonnet-4-6").ready()
	if got := p.logged("the default model has no API key", "variable"); got != "ANTHROPIC_API_KEY" {
		t.Errorf("it names %s", got)
	}
}

func TestPromptFromStandardInput(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	p, _ := program()
	io := ioOf(strings.NewReader("{not JSON"), &out)
	if err := p.Run(t.Context(), []string{"run", "-", "--model", "rehearsal"}, io); err != nil ||
		!strings.Contains(out.String(), "you: {not JSON\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
