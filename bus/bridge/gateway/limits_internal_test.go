package gateway

import (
	"context"
	"encoding/json"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { bustest.Main(m) }

// limited returns a bridge whose requests have so many bytes together. No runner answers its clients.
func limited(t *testing.T, bytes int, o Options) *Bridge {
	t.Helper()
	c, err := client.New(bustest.New(t).NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := New(c, o)
	b.budget = bridge.NewBudget(bytes, maxValues)
	t.Cleanup(b.Close)
	return b
}

// chatter is a client that has connected.
type chatter struct {
	t  *testing.T
	ws *websocket.Conn
}

func connected(t *testing.T, b *Bridge) *chatter {
	t.Helper()
	s := httptest.NewServer(b)
	t.Cleanup(s.Close)
	ws, _, err := websocket.Dial(bustest.Deadline(t), strings.Replace(s.URL, "http", "ws", 1), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ws.CloseNow() })
	c := &chatter{t, ws}
	if code := c.ask("connect", map[string]any{"minProtocol": protocol, "maxProtocol": protocol}); code != "" {
		t.Fatal(code)
	}
	return c
}

// post sends a request without waiting for its answer.
func (c *chatter) post(id, method string, params any) error {
	c.t.Helper()
	data, err := json.Marshal(map[string]any{"type": "req", "id": id, "method": method, "params": params})
	if err != nil {
		c.t.Fatal(err)
	}
	return c.ws.Write(bustest.Deadline(c.t), websocket.MessageText, data)
}

// ask returns the code of the answer to a request, "" if it was accepted.
func (c *chatter) ask(method string, params any) (code string) {
	c.t.Helper()
	if err := c.post("asked", method, params); err != nil {
		c.t.Fatal(err)
	}
	for {
		var answer struct {
			ID    string
			Error struct {
				Code    string
				Details struct{ Code string }
			}
		}
		if _, data, err := c.ws.Read(bustest.Deadline(c.t)); err != nil || json.Unmarshal(data, &answer) != nil {
			c.t.Fatalf("%v: %s", err, data)
		}
		if answer.ID == "asked" {
			return answer.Error.Details.Code
		}
	}
}

// ended returns why the connection has ended.
func (c *chatter) ended() websocket.StatusCode {
	c.t.Helper()
	for {
		if _, _, err := c.ws.Read(bustest.Deadline(c.t)); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

func message(session, text string) map[string]any {
	return map[string]any{"sessionKey": session, "message": text, "idempotencyKey": "k1"}
}

func filled(n int) string { return strings.Repeat("x", n) }

// live returns the bytes of the heap that are in use.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Requests that only wait keep nothing of their frames. This test is not parallel, because it looks at the memory of
// the process.
func TestWaitsKeepNoFrames(t *testing.T) {
	b := limited(t, 128<<20, Options{})
	c := connected(t, b)
	if code := c.ask("chat.send", message("s1", "hello")); code != "" {
		t.Fatal(code)
	}
	before := live()
	const size = 256 << 10
	for i := range maxWaits {
		if err := c.post(strconv.Itoa(i), "agent.wait", map[string]any{"runId": "k1", "timeoutMs": 600_000,
			"pad": filled(size)}); err != nil {
			t.Fatal(err)
		}
	}
	if code := c.ask("agent.wait", map[string]any{"runId": "k1"}); code != "unavailable" {
		t.Errorf("%d requests wait, and another one gets %q", maxWaits, code)
	}
	bustest.Eventually(t, "the frames are dropped", func() bool { return live() < before+maxWaits/4*size })
}

// The requests of a connection that have no answer yet are bounded in bytes, and so are those of all connections. Other
// connections go on.
func TestRequestsAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	b := limited(t, 4<<20, Options{Load: func(ctx context.Context, session string) (*loop.State, error) {
		if session == "slow" {
			select {
			case <-held:
			case <-ctx.Done():
			}
		}
		return new(loop.State), nil
	}})
	first, second := connected(t, b), connected(t, b)
	for i := range 8 {
		if first.post(strconv.Itoa(i), "chat.send", message("slow", filled(500<<10))) != nil {
			break // the connection has ended
		}
	}
	if got := first.ended(); got != websocket.StatusTryAgainLater {
		t.Errorf("a connection whose requests have half of all bytes ends with %v", got)
	}
	third := connected(t, b)
	for i := range 2 { // also while the requests of the first one end
		if err := second.post(strconv.Itoa(i), "chat.send", message("slow", filled(400<<10))); err != nil {
			t.Fatal(err)
		}
	}
	dense := map[string]any{"sessionKey": "s1", "attachments": make([]struct{}, maxValues/2-10)}
	if code := second.ask("chat.send", dense); code != "overloaded" {
		t.Errorf("a request that would take too much once it is decoded: %q", code)
	}
	for name, c := range map[string]*chatter{"the connection": second, "another one": third} {
		if code := c.ask("chat.send", message("quick", "hello")); code != "" {
			t.Errorf("a small request of %s beside large ones: %q", name, code)
		}
	}
	close(held)
}

// What a connection remembers of a request has a limit.
func TestRequestsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	b := limited(t, bridge.MaxHeld, Options{})
	c := connected(t, b)
	long := filled(2 << 10)
	for method, params := range map[string]map[string]any{
		"agent.wait":                  {"runId": long},
		"sessions.messages.subscribe": {"key": long},
		"chat.send":                   message(long, "hello"),
	} {
		if code := c.ask(method, params); code != "invalid" {
			t.Errorf("%s with an id of %d bytes: %q", method, len(long), code)
		}
	}
	dense := map[string]any{"sessionKey": "s1", "attachments": make([]struct{}, maxValues)}
	if code := c.ask("chat.send", dense); code != "too_large" {
		t.Errorf("a request of many values: %q", code)
	}
	if err := c.post(long, "health", nil); err != nil {
		t.Fatal(err)
	}
	if got := c.ended(); got != websocket.StatusPolicyViolation {
		t.Errorf("a request whose id has %d bytes: %v", len(long), got)
	}
}

// A frame that has begun must arrive in time: what has arrived of it counts.
func TestFramesThatDoNotEnd(t *testing.T) {
	t.Parallel()
	b := limited(t, bridge.MaxHeld, Options{ReadTimeout: 50 * time.Millisecond})
	c := connected(t, b)
	w, err := c.ws.Writer(bustest.Deadline(t), websocket.MessageText)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = w.Write([]byte(`{"type":"req","pad":"` + filled(64<<10))) // fails if it takes too long
	c.ended()
}

// A connection remembers its newest runs, but not their replies.
func TestRunsThatHaveEndedKeepOnlyTheirAnswers(t *testing.T) {
	t.Parallel()
	var r runs
	run := new(client.Run)
	r.add(run)
	if r.get("").run != run {
		t.Fatal("a run is not known")
	}
	r.ended("", map[string]any{"status": "ok"})
	r.add(run)
	if one := r.get(""); one.run != nil || one.answer["status"] != "ok" {
		t.Errorf("a run that has ended is kept as %+v", one)
	}
	if r.ended("another", nil); len(r.byID) != 1 {
		t.Error("a run that is forgotten comes back")
	}
}

// A view keeps nothing of a run that has ended.
func TestViewsForgetRunsThatHaveEnded(t *testing.T) {
	t.Parallel()
	state := &loop.State{Run: &loop.Run{ID: "r1", Command: "c1"}}
	v := newView("s1", state, false, func(string, any) error { return nil })
	reply := &schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: "said"}}}
	for _, data := range []schemas.EventData{
		&schemas.MessageEnd{MessageID: "m1", Message: schemas.AnyMessage{Message: reply}}, &schemas.AgentEnd{},
	} {
		if _, ends := data.(*schemas.AgentEnd); ends == (v.last == nil) {
			t.Errorf("before %s the newest reply is %v", data.EventType(), v.last)
		}
		if err := v.take(client.Item{Event: &schemas.Event{Data: data}}); err != nil {
			t.Fatal(err)
		}
	}
	if v.last != nil || len(v.replies) > 0 {
		t.Errorf("kept: %v, %d replies", v.last, len(v.replies))
	}
}
