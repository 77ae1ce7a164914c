package main

import (
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
)

// get returns the status and the body of a page, 0 if nobody answers.
func get(url string) (int, string) {
	client := http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(url)
	if err != nil {
		return 0, err.Error()
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err.Error()
	}
	return response.StatusCode, string(body)
}

// startServing starts a runner with its own server on a free port.
func startServing(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, nil, append([]string{"--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--log-json"}, args...)...)
}

func natsOf(t *testing.T, p *process) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect(p.logged("runner starts", "nats"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

// ask requests something and decodes the JSON that is answered.
func ask[T any](t *testing.T, nc *nats.Conn, subject string) (answer T) {
	t.Helper()
	msg, err := nc.Request(subject, nil, 10*time.Second)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		t.Fatalf("%s: %v in %s", subject, err, msg.Data)
	}
	return answer
}

func TestServe(t *testing.T) {
	t.Parallel()
	p := startServing(t, "--id", "r1", "--model", "rehearsal", "--log-level", "debug").ready()
	web := "http://" + p.logged("health and metrics", "address")
	nc := natsOf(t, p)

	live, err := nc.SubscribeSync("agent.live.s1.event")
	if err != nil {
		t.Fatal(err)
	}
	ack := command(t, nc, "agent.cmd.s1.prompt", "!echo a-secret-of-mine")
	if ack.Stream != schemas.StreamCommands {
		t.Errorf("the prompt was acknowledged by %+v", ack)
	}
	for ended := false; !ended; {
		m, err := live.NextMsg(deadline)
		if err != nil {
			t.Fatal(err)
		}
		events, err := schemas.DecodeLog("s1", m.Header, m.Data, nil)
		if err != nil {
			t.Fatal(err)
		}
		ended = slices.ContainsFunc(events, func(e schemas.Event) bool { return e.Type() == schemas.EventAgentEnd })
	}

	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ok",
		"/metrics": `loopbus_runs_total{profile="",reason="no_tool_calls"} 1`} {
		if code, body := get(web + path); code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%s: %d, %q is missing in\n%s", path, code, want, body)
		}
	}
	for _, want := range []string{"loopbus_events_total", "loopbus_tokens_total", "loopbus_cost_usd_total",
		"loopbus_model_call_seconds_count",
		"loopbus_tool_execution_seconds_count", "loopbus_inbox_", "loopbus_sessions_held 1", "go_goroutines"} {
		if _, body := get(web + "/metrics"); !strings.Contains(body, want) {
			t.Errorf("no metric %s", want)
		}
	}
	checkMicro(t, nc)
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
	if strings.Contains(p.stderr.String(), "a-secret-of-mine") {
		t.Error("the log has content of the prompt")
	}
}

// checkMicro wants the runner listed as `nats micro` asks for it.
func checkMicro(t *testing.T, nc *nats.Conn) {
	t.Helper()
	type listed struct {
		Type, Name, Version string
		Metadata            map[string]string
		Endpoints           []struct{ Name, Subject string }
	}
	for _, subject := range []string{"$SRV.PING", "$SRV.PING.loopbus-runner"} {
		if got := ask[listed](t, nc, subject); got.Name != "loopbus-runner" || got.Version != version ||
			got.Metadata["id"] != "r1" {
			t.Errorf("%s: %+v", subject, got)
		}
	}
	info := ask[listed](t, nc, "$SRV.INFO.loopbus-runner")
	subjects := make(map[string]string)
	for _, e := range info.Endpoints {
		subjects[e.Name] = e.Subject
	}
	if len(subjects) != 12 || subjects["all-sessions"] != "agent.query.sessions" ||
		subjects["outcome"] != "agent.query.*.outcome" || info.Metadata["model"] == "" {
		t.Fatalf("info: %+v", info)
	}
	if got := ask[status](t, nc, subjects["status"]); got.ID != "r1" || !got.Ready || len(got.Partitions) != 64 ||
		got.Sessions != 1 {
		t.Errorf("status: %+v", got)
	}
}

// ack is how a stream acknowledges.
type ack struct {
	Stream string
	Seq    uint64
}

// command publishes a command as `nats req` does.
func command(t *testing.T, nc *nats.Conn, subject, payload string) (a ack) {
	t.Helper()
	msg, err := nc.Request(subject, []byte(payload), 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(msg.Data, &a); err != nil {
		t.Fatalf("%v in %s", err, msg.Data)
	}
	return a
}

func TestOneServerPerStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := startServing(t, "--store", dir).ready()
	other := startServing(t, "--store", dir).wantExit(1)
	if got := other.stderr.String(); !strings.Contains(got, dir) || !strings.Contains(got, "in use") {
		t.Errorf("stderr has %q", got)
	}
	p.signal(syscall.SIGTERM)
	p.wantExit(0)
}

// The second signal does not wait for what the first one lets finish: here a command that runs on.
func TestSecondSignalEndsAtOnce(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	release := func() { _ = os.WriteFile(filepath.Join(root, "go"), nil, 0o600) }
	t.Cleanup(release) // for the command, which nobody kills
	p := startServing(t, "--model", "rehearsal", "--root", root, "--stop-timeout", "10m").ready()
	web := "http://" + p.logged("health and metrics", "address")
	command(t, natsOf(t, p), "agent.cmd.s1.prompt", "!touch begun; until [ -e go ]; do sleep 0.05; done")
	eventually(t, "the command runs", func() bool {
		_, err := os.Stat(filepath.Join(root, "begun"))
		return err == nil
	})
	p.signal(syscall.SIGTERM)
	eventually(t, "the runner stops", func() bool {
		code, _ := get(web + "/readyz")
		return code != http.StatusOK
	})
	select {
	case <-p.done:
		t.Error("the runner did not wait for the command")
	default:
	}
	second := time.Now()
	p.signal(syscall.SIGTERM)
	p.wantExit(-1)
	if took := time.Since(second); took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
}
