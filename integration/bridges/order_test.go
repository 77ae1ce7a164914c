package bridges_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/bridge/gateway"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// connected returns a connection of a client that has connected by the protocol.
func (r *rig) connected(check func(string, []byte, frame)) *chat {
	r.t.Helper()
	c := r.chat("", check)
	c.until(named("connect.challenge"))
	me := map[string]any{"minProtocol": 4, "maxProtocol": 4, "role": "operator",
		"client": map[string]any{"id": "test", "version": "1", "platform": "go", "mode": "test"}}
	if a := c.request("connect", me); !a.OK {
		r.t.Fatalf("connect: %+v", a)
	}
	return c
}

// post sends a request without waiting for the answer.
func (c *chat) post(id, method string, params any) {
	c.t.Helper()
	data, err := json.Marshal(map[string]any{"type": "req", "id": id, "method": method, "params": params})
	if err == nil {
		err = c.ws.Write(bustest.Deadline(c.t), websocket.MessageText, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// answers reads up to the answers to the requests with the given ids, and returns those.
func (c *chat) answers(ids ...string) map[string]frame {
	c.t.Helper()
	got := map[string]frame{}
	c.until(func(f frame) bool {
		if f.Type == "res" && slices.Contains(ids, f.ID) {
			got[f.ID] = f
		}
		return len(got) == len(ids)
	})
	return got
}

func message(session, text, key, mode string) map[string]any {
	return map[string]any{"sessionKey": session, "message": text, "idempotencyKey": key, "queueMode": mode}
}

// stopped is the answer to chat.abort.
type stopped struct {
	OK      bool
	Aborted bool
	RunIDs  []string
}

func (c *chat) stopped(answer frame) (s stopped) {
	c.t.Helper()
	if err := json.Unmarshal(answer.Payload, &s); err != nil || !answer.OK {
		c.t.Errorf("chat.abort: %+v %v", answer, err)
	}
	return s
}

func (c *chat) expectStopped(session, run string, want ...string) {
	c.t.Helper()
	params := map[string]any{"sessionKey": session}
	if run != "" {
		params["runId"] = run
	}
	got := c.stopped(c.request("chat.abort", params))
	if d := cmp.Diff(stopped{true, len(want) > 0, append([]string{}, want...)}, got); d != "" {
		c.t.Errorf("chat.abort of run %q (-want +got):\n%s", run, d)
	}
}

// What a client sends for a session on one connection reaches the session in that order.
func TestMessagesInOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connected(nil)
	var ids, want []string
	for i := range 30 {
		id := strconv.Itoa(i)
		ids, want = append(ids, id), append(want, "hello "+id)
		c.post(id, "chat.send", message("s1", "hello "+id, "k"+id, "followup"))
	}
	for id, a := range c.answers(ids...) {
		if !a.OK {
			t.Errorf("message %s: %+v", id, a)
		}
	}
	taken := 0
	log := r.Until(t, "s1", "every message to be taken", func(e schemas.Event) bool {
		if d, ok := e.Data.(*schemas.CommandApplied); ok && d.Kind == schemas.CommandFollowUp {
			taken++
		}
		return taken == len(want)
	})
	if d := cmp.Diff(want, system.Said(log)); d != "" {
		t.Errorf("the messages in the transcript (-want +got):\n%s", d)
	}
}

// An abort that follows a message on the same connection stops it, at once or after the answer, whether its run has
// begun or not.
func TestAnAbortBehindItsMessage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connected(nil)
	var ids []string
	for i := range 10 {
		n := strconv.Itoa(i)
		ids = append(ids, "abort "+n)
		c.post("send "+n, "chat.send", message("s"+n, "hang", "k"+n, ""))
		c.post("abort "+n, "chat.abort", map[string]any{"sessionKey": "s" + n})
	}
	for id, a := range c.answers(ids...) {
		n := strings.TrimPrefix(id, "abort ")
		if d := cmp.Diff(stopped{true, true, []string{"k" + n}}, c.stopped(a)); d != "" {
			t.Errorf("abort of session %s (-want +got):\n%s", n, d)
		}
	}
	for i := range 10 {
		session, key := fmt.Sprintf("t%d", i), fmt.Sprintf("k%d", i)
		if a := c.request("chat.send", message(session, "hang", key, "")); !a.OK {
			t.Errorf("chat.send: %+v", a)
		}
		c.expectStopped(session, key, key)
		over := c.request("agent.wait", map[string]any{"runId": key, "timeoutMs": 10_000})
		if !strings.Contains(string(over.Payload), `"status":"error"`) {
			t.Errorf("the aborted run ended with %s", over.Payload)
		}
	}
}

// A message that waits behind a run is withdrawn by its id, and the run goes on. Without an id everything ends. Clients
// that watch the session learn of both.
func TestAbortOfMessagesThatWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.connected(protocolSchema(t))
	ended := func(run string) func(frame) bool {
		return func(f frame) bool {
			return f.Event == "chat" && strings.Contains(string(f.Payload), `"state":"aborted"`) &&
				strings.Contains(string(f.Payload), `"runId":"`+run+`"`)
		}
	}
	send := func(key, text, mode string) {
		t.Helper()
		if a := c.request("chat.send", message("s1", text, key, mode)); !a.OK {
			t.Fatalf("chat.send: %+v", a)
		}
	}
	c.expectStopped("s1", "")
	send("k1", "hang", "")
	send("k2", "hello", "")
	send("k3", "hello", "followup")
	send("k4", "hello", "steer")
	c.expectStopped("s1", "k2", "k2")
	c.expectStopped("s1", "k2")
	c.expectStopped("s1", "other")
	c.until(ended("k2"))
	send("k5", "hello", "")
	answer := c.stopped(c.request("chat.abort", map[string]any{"sessionKey": "s1"}))
	slices.Sort(answer.RunIDs)
	if d := cmp.Diff(stopped{true, true, []string{"k1", "k3", "k4", "k5"}}, answer); d != "" {
		t.Errorf("chat.abort of the session (-want +got):\n%s", d)
	}
	open := map[string]bool{"k1": true, "k3": true, "k4": true, "k5": true}
	c.until(func(f frame) bool {
		for run := range open {
			if ended(run)(f) {
				delete(open, run)
			}
		}
		return len(open) == 0
	})
	c.expectStopped("s1", "k1")
	c.expectStopped("s1", "")
}

// Requests that wait hold up no other ones, and a session that is slow to open does not hold up other sessions.
func TestSlowRequestsHoldUpNoOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	held := make(chan struct{})
	b := gateway.New(r.client, gateway.Options{Load: func(ctx context.Context, session string) (*loop.State, error) {
		if session == "slow" {
			select {
			case <-held:
			case <-ctx.Done():
			}
		}
		return r.State(ctx, session)
	}})
	s := httptest.NewServer(b)
	t.Cleanup(func() { b.Close(); s.Close() })
	r.url = s.URL
	c := r.connected(nil)
	if a := c.request("chat.send", message("s1", "hang", "k1", "")); !a.OK {
		t.Fatalf("chat.send: %+v", a)
	}
	for i := range 65 {
		c.post(fmt.Sprintf("wait %d", i), "agent.wait", map[string]any{"runId": "k1", "timeoutMs": 600_000})
	}
	if a := c.answers("wait 64")["wait 64"]; a.OK || a.Error.Code != "UNAVAILABLE" {
		t.Errorf("one request too many that waits: %+v", a)
	}
	c.post("slow 1", "chat.send", message("slow", "hello 1", "k1", "followup"))
	c.post("slow 2", "chat.send", message("slow", "hello 2", "k2", "followup"))
	if a := c.request("chat.send", message("s2", "hello", "k2", "")); !a.OK {
		t.Errorf("chat.send to another session: %+v", a)
	}
	c.expectStopped("s1", "k1", "k1")
	close(held)
	c.answers("slow 1", "slow 2")
	log := r.Until(t, "slow", "the second message", func(e schemas.Event) bool {
		d, ok := e.Data.(*schemas.CommandApplied)
		return ok && d.CommandID == "k2"
	})
	if d := cmp.Diff([]string{"hello 1", "hello 2"}, system.Said(log)); d != "" {
		t.Errorf("the messages of the slow session (-want +got):\n%s", d)
	}
}

// An abort by an AG-UI client also ends what waits.
func TestAGUIAbortOfMessagesThatWait(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	open := func(run, text string) *http.Response {
		t.Helper()
		body := `{"threadId":"s1","runId":"` + run + `","protocolVersion":"1.0","messages":[` +
			`{"id":"` + run + `","role":"user","content":"` + text + `"}]}`
		response, err := http.Post(r.url+"/ag-ui", "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	first := open("r1", "hang")
	second := open("r2", "hello")
	response, err := http.Post(r.url+"/ag-ui/abort", "application/json", strings.NewReader(`{"threadId":"s1"}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	for what, of := range map[string]*http.Response{`"type":"cancelled"`: first, `"code":"withdrawn"`: second} {
		if said, err := io.ReadAll(of.Body); err != nil || !strings.Contains(string(said), what) {
			t.Errorf("%v; not %s: %s", err, what, said)
		}
	}
}
