package main

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

func TestOneShotAsksAModelBehindTheBus(t *testing.T) {
	t.Parallel()
	script := write(t, "script.json", `[{"text":"said behind the bus"}]`)
	for name, c := range map[string]struct {
		args []string
		code int
		says string
	}{
		"served here": {[]string{"--serve-models", "--script", script, "--model", "bus/scripted"}, 0,
			"said behind the bus"},
		"of the catalogue": {[]string{"--serve-models", "--max-retries", "0", "--model", "bus/no/such-model"}, 1,
			"no/such-model"},
		"in circles": {[]string{"--serve-models", "--max-retries", "0", "--model", "bus/bus/rehearsal"}, 1, "bus/rehearsal"},
		"by nobody":  {[]string{"--model", "bus/scripted"}, 1, "no runner serves models (start one with --serve-models)"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t, nil, append(c.args, "--prompt", "go")...).wantExit(c.code)
			if got := p.stdout.String(); !strings.Contains(got, c.says) {
				t.Errorf("%q is missing in:\n%s", c.says, got)
			}
		})
	}
}

// TestARunnerWithoutKeysAsksOneThatHasThem gives its model to a session, whichever of the two drives it.
func TestARunnerWithoutKeysAsksOneThatHasThem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	script := write(t, "script.json", `[{"text":"said behind the bus"}]`)
	for _, args := range [][]string{{"--id", "serves", "--serve-models", "--script", script}, {"--id", "asks"}} {
		start(t, nil, append(args, "--nats", w.url, "--model", "bus/scripted", "--http", "127.0.0.1:0",
			"--log-json")...).ready()
	}
	for _, session := range []string{"s1", "s2", "s3", "s4"} { // some to each
		w.prompt(session)
		for _, e := range w.until(session, 1, schemas.EventAgentEnd) {
			if end, ok := e.Data.(*schemas.AgentEnd); ok && !end.TerminationReason.Normal() {
				t.Errorf("session %s ends with %s: %s", session, end.TerminationReason, end.ErrorMessage)
			}
		}
	}
}

// TestTheKeyServiceComesFirst asks for a vendor's model that nobody can reach: the error is that of the key service.
func TestTheKeyServiceComesFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	asked := make(chan string, 10)
	sub, err := w.conn.NATS().Subscribe("agent.key.*", func(m *nats.Msg) {
		asked <- m.Subject
		_ = m.Respond([]byte("two words"))
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sub.Unsubscribe() })
	start(t, []string{"ANTHROPIC_API_KEY=sk-of-the-environment"}, "--nats", w.url, "--key-service", "--max-retries", "0",
		"--http", "127.0.0.1:0", "--log-json").ready()
	p := start(t, nil, "run", "go", "--nats", w.url).wantExit(1)
	if got := p.stdout.String(); !strings.Contains(got, "neither a key nor a JSON object") ||
		strings.Contains(got, "sk-of") || strings.Contains(got, "two words") {
		t.Errorf("the run shows:\n%s", got)
	}
	select {
	case got := <-asked:
		if got != "agent.key.anthropic" {
			t.Errorf("%s was asked", got)
		}
	default:
		t.Error("nobody was asked")
	}
}
