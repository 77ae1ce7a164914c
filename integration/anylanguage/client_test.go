//go:build unix

package anylanguage_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// line is an output line of testdata/client.mjs.
type line struct {
	Seq       uint64
	Type      schemas.EventType
	Update, N uint64
	Delta     string
	Streaming bool
	Result    *struct {
		Reason schemas.TerminationReason
		Text   string
		Cost   *float64
	}
	From               int
	Text               string
	Session, Damaged   string
	RunID, CausationID string
	Time               time.Time
	Data               json.RawMessage
	OK                 bool
	Unheard            string
}

// script is a running scenario of testdata/client.mjs.
type script struct {
	t     *testing.T
	out   *bufio.Scanner
	stdin io.WriteCloser
	cmd   *exec.Cmd
	said  *strings.Builder
}

func needsNode(t *testing.T) {
	t.Helper()
	_, modules := os.Stat(example(t, "node", "node_modules", "@nats-io", "transport-node"))
	needs(t, "install Node.js 18 or later and run npm ci in docs/examples/node", program("node"), modules)
}

func startScript(t *testing.T, url string, args ...string) *script {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 90*time.Second)
	t.Cleanup(cancel)
	s := &script{t: t, cmd: exec.CommandContext(ctx, "node", append([]string{"testdata/client.mjs"}, args...)...),
		said: new(strings.Builder)}
	s.cmd.Env = append(os.Environ(), "NATS_URL="+url, "MODULES="+example(t, "node"))
	s.cmd.Stderr = s.said
	stdout, err := s.cmd.StdoutPipe()
	if err == nil {
		s.stdin, err = s.cmd.StdinPipe()
	}
	if err == nil {
		err = s.cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	s.out = bufio.NewScanner(stdout)
	s.out.Buffer(nil, 4<<20)
	return s
}

// lines returns the output lines of the scenario, to its end.
func (s *script) lines(each func(line)) {
	s.t.Helper()
	for s.out.Scan() {
		var l line
		if err := json.Unmarshal(s.out.Bytes(), &l); err != nil {
			s.t.Errorf("%.200q: %v", s.out.Text(), err)
		}
		each(l)
	}
	if err := s.cmd.Wait(); err != nil {
		s.t.Fatalf("node: %v\n%s", err, s.said)
	}
}

// goOn lets the scenario continue.
func (s *script) goOn() {
	s.t.Helper()
	if _, err := io.WriteString(s.stdin, "\n"); err != nil {
		s.t.Fatal(err)
	}
}

// everythingTwice publishes every live message a second time.
func everythingTwice(t *testing.T, nc *nats.Conn) {
	t.Helper()
	const again = "Again"
	_, err := nc.Subscribe("agent.live.>", func(m *nats.Msg) {
		if m.Header.Get(again) == "" {
			m.Header.Set(again, "1")
			_ = nc.PublishMsg(&nats.Msg{Subject: m.Subject, Header: m.Header, Data: m.Data}) // lost with the server
		}
	})
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// The client retries errors that end when a server is back, and reports others.
func TestErrorsThatPassInJavaScript(t *testing.T) {
	t.Parallel()
	needsNode(t)
	node := exec.CommandContext(t.Context(), "node", "testdata/passing.mjs")
	node.Env = append(os.Environ(), "MODULES="+example(t, "node"))
	out, err := node.Output()
	if err != nil {
		t.Fatal(err)
	}
	const want = `nobody: true
nobody, of a request: true
late: true
lost: true
closed: false
denied: false
`
	if string(out) != want {
		t.Errorf("retried errors are\n%swant\n%s", out, want)
	}
}

// The server is restarted while a reply is streamed. A program that follows the run with the JavaScript client receives
// each event of the log once, and each update once and in order.
func TestJavaScriptFollowsARunAcrossARestart(t *testing.T) {
	t.Parallel()
	needsNode(t)
	o := embedded.Options{Listen: bustest.FreePort(t), StoreDir: t.TempDir()}
	server, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Shutdown() }) // the last one, after the runner has stopped
	model := system.NewGated(6, chunked(t, scripted.Text("a reply that is long enough")))
	sys := system.Start(t, server.ClientURL(), system.Options{Model: model, UpdateInterval: -1})
	t.Cleanup(model.Release)
	everythingTwice(t, sys.Client.NATS())
	node := startScript(t, sys.URL, "run")
	var events []schemas.EventType
	var last line
	updates, text := map[string]bool{}, map[uint64]string{}
	node.lines(func(l line) {
		switch {
		case l.Streaming:
			server.Shutdown()
			if server, err = embedded.Start(o); err != nil {
				t.Fatal(err)
			}
			model.Release()
			node.goOn()
		case l.Update > 0:
			id := strconv.FormatUint(l.Update, 10) + "." + strconv.FormatUint(l.N, 10)
			if updates[id] {
				t.Errorf("update %s arrived twice", id)
			}
			updates[id] = true
			if text[l.Update] += l.Delta; !strings.HasPrefix("a reply that is long enough", text[l.Update]) {
				t.Errorf("message %d is %q", l.Update, text[l.Update])
			}
		case l.Seq > 0:
			if events = append(events, l.Type); l.Seq != uint64(len(events)) {
				t.Errorf("event %d is the %dth", l.Seq, len(events))
			}
		}
		last = l
	})
	if got, want := len(events), len(sys.LogOf(t, "s1")); got != want || events[got-1] != schemas.EventAgentEnd {
		t.Errorf("saw %v, the log has %d events", events, want)
	}
	if r := last.Result; r == nil || r.Reason != schemas.EndNoToolCalls || r.Text != "a reply that is long enough" ||
		r.Cost == nil || len(updates) == 0 {
		t.Errorf("result %+v after %d updates", r, len(updates))
	}
}

// serveQueries answers the queries, with a catalogue of many models.
func serveQueries(t *testing.T, sys *system.System) {
	t.Helper()
	system.Serve(t, func(ctx context.Context) error {
		return service.Run(ctx, sys.Conn.NATS(), service.Options{Name: "loopbus-runner", Version: "0.1.0",
			Busy: queries.Busy()}, sys.Queries(wiring.Catalogue{Models: func() []schemas.ModelInfo {
			list := make([]schemas.ModelInfo, 2500)
			for i := range list {
				list[i].ID = strconv.Itoa(i)
			}
			return list
		}})...)
	})
}

// A viewer that joins in the middle of a reply gets all of its text so far.
func TestJavaScriptJoinsInTheMiddle(t *testing.T) {
	t.Parallel()
	needsNode(t)
	model := system.NewGated(6, chunked(t, scripted.Text("a reply that is long enough")))
	sys := system.StartAlone(t, system.Options{Model: model, UpdateInterval: -1})
	t.Cleanup(model.Release)
	sys.Prompt(t, "s1", "go")
	<-model.Reached
	joined := 0
	startScript(t, sys.URL, "join").lines(func(l line) {
		if joined++; !strings.HasPrefix(l.Text, "a reply") {
			t.Errorf("from %d: %q", l.From, l.Text)
		}
	})
	model.Release()
	if joined != 2 {
		t.Errorf("it joined %d times", joined)
	}
}

// All methods of the client: their errors, following approvals, and data in the object store.
func TestJavaScriptMethods(t *testing.T) {
	t.Parallel()
	needsNode(t)
	call := scripted.Calls("let me see", schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"1"}`)})
	sys := system.StartAlone(t, system.Options{Model: chunked(t, call, scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	serveQueries(t, sys)
	ok := false
	startScript(t, sys.URL, "methods").lines(func(l line) { ok = ok || l.OK })
	if !ok {
		t.Error("it did not come to its end")
	}
}

// A stream may store queries, to audit them. The server acknowledges each at the inbox where the client waits for the
// runner's answer.
func TestJavaScriptQueriesPassOverAcknowledgements(t *testing.T) {
	t.Parallel()
	needsNode(t)
	sys := system.StartAlone(t, system.Options{Model: chunked(t)})
	serveQueries(t, sys)
	if _, err := sys.Client.JetStream().CreateStream(bustest.Deadline(t), jetstream.StreamConfig{
		Name: "AUDIT", Subjects: []string{"agent.query.>"}, Storage: jetstream.MemoryStorage,
	}); err != nil {
		t.Fatal(err)
	}
	ok := false
	startScript(t, sys.URL, "stored").lines(func(l line) { ok = ok || l.OK })
	if !ok {
		t.Error("it printed no page of sessions")
	}
}

// A user answers an approval in a list after the session was deleted and started again. The client reports that the
// answer was rejected, and its list has the call that waits now.
func TestJavaScriptAnswersWhatItShows(t *testing.T) {
	t.Parallel()
	needsNode(t)
	call := scripted.Calls("", schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"1"}`)})
	sys := system.StartAlone(t, system.Options{Model: chunked(t, call, scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	serveQueries(t, sys)
	sys.Prompt(t, "s1", "go")
	s, ok := startScript(t, sys.URL, "anew"), false
	s.lines(func(l line) {
		if ok = ok || l.OK; l.Streaming {
			sys.Anew(t, "s1", "go")
			s.goOn()
		}
	})
	if sys.Until(t, "s1", "the end of the run", system.Ends(1)); !ok {
		t.Error("it did not come to its end")
	}
}

// The client reads logs of an earlier version, with one event per message, and skips answers of servers in a log. A log
// with a gap is reported as damaged.
func TestJavaScriptReadsLogs(t *testing.T) {
	t.Parallel()
	needsNode(t)
	sys := system.StartAlone(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	want := sys.Prompted(t, "new", "go \u00e9", 1)
	js, nc := sys.Client.JetStream(), sys.Client.NATS()
	before := func(session string, drop uint64) {
		for _, e := range want {
			if e.Seq == drop {
				continue
			}
			e.Session = session
			data, err := schemas.AppendData(nil, e.Data)
			if err != nil {
				t.Fatal(err)
			}
			header, body := schemas.StoredEvent{Event: e, Name: string(e.Type()), Raw: data}.Binary()
			if _, err = js.PublishMsg(t.Context(), &nats.Msg{Subject: "agent.evt." + session, Header: header,
				Data: body}); err != nil {
				t.Fatal(err)
			}
			for _, request := range []string{"$JS.API.STREAM.INFO.AGENT_EVT", "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.new"} {
				if err := nc.PublishMsg(&nats.Msg{Subject: request, Reply: "agent.evt." + session}); err != nil {
					t.Fatal(err)
				}
			}
			if err := nc.Flush(); err != nil {
				t.Fatal(err)
			}
		}
	}
	before("old", 0)
	before("hole", 3)
	seen, damaged := map[string]int{}, map[string]string{}
	startScript(t, sys.URL, "history", "new", "old", "hole").lines(func(l line) {
		if l.Damaged != "" {
			damaged[l.Session] = l.Damaged
			return
		}
		e := want[min(seen[l.Session], len(want)-1)]
		seen[l.Session]++
		if l.Seq != e.Seq || l.Type != e.Type() || l.RunID != e.RunID || l.CausationID != e.CausationID ||
			!l.Time.Equal(e.Time) || len(l.Data) == 0 {
			t.Errorf("got %+v, want %+v", l, e)
		}
	})
	if seen["new"] != len(want) || seen["old"] != len(want) || seen["hole"] != 2 || len(damaged) != 1 ||
		!strings.Contains(damaged["hole"], "stored after event 2") {
		t.Errorf("saw %v of %d, damaged %v", seen, len(want), damaged)
	}
}

// chunked is a model that streams the replies in pieces of three bytes.
func chunked(t *testing.T, replies ...scripted.Response) *scripted.Model {
	t.Helper()
	m, err := scripted.NewScripts(scripted.Options{ChunkSize: 3}, scripted.Script{Responses: replies, Loop: true})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// The example sends a prompt to a session and prints the reply.
func TestJavaScriptExample(t *testing.T) {
	t.Parallel()
	needsNode(t)
	w := newWorld(t)
	cmd := exec.Command("node", example(t, "node", "prompt.mjs"), "hello")
	cmd.Env = append(os.Environ(), "NATS_URL="+w.url)
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "This is rehearsal") ||
		!strings.Contains(string(out), "no_tool_calls") {
		t.Errorf("%v: %s", err, out)
	}
}
