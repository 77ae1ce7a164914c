package bridges_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v5"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
)

// chat is a WebSocket connection to the gateway.
type chat struct {
	t     *testing.T
	ws    *websocket.Conn
	check func(kind string, frame []byte, f frame)
	seq   uint64
	sent  int
	early []frame // frames that arrived before the answer to a request
}

// frame is a frame from the gateway.
type frame struct {
	Type    string          `json:"type"`
	Event   string          `json:"event"`
	ID      string          `json:"id"`
	OK      bool            `json:"ok"`
	Payload json.RawMessage `json:"payload"`
	Error   struct {
		Code, Message string
		Retryable     bool
		Details       struct{ Code string }
	}
	Seq          uint64          `json:"seq"`
	StateVersion json.RawMessage `json:"stateVersion"`
}

func (r *rig) chat(query string, check func(string, []byte, frame)) *chat {
	r.t.Helper()
	ws, _, err := websocket.Dial(bustest.Deadline(r.t), strings.Replace(r.url, "http", "ws", 1)+"/gateway"+query,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + chatToken}}})
	if err != nil {
		r.t.Fatal(err)
	}
	ws.SetReadLimit(16 << 20)
	r.t.Cleanup(func() { _ = ws.CloseNow() })
	return &chat{t: r.t, ws: ws, check: check}
}

// next reads a frame, and checks that none is missing.
func (c *chat) next() (f frame) {
	c.t.Helper()
	kind, data, err := c.ws.Read(bustest.Deadline(c.t))
	if err != nil || kind != websocket.MessageText || json.Unmarshal(data, &f) != nil {
		c.t.Fatalf("%v %v %s", err, kind, data)
	}
	if f.Type == "event" {
		if c.seq++; f.Seq != c.seq {
			c.t.Fatalf("frame %d follows %d", f.Seq, c.seq-1)
		}
	}
	if c.check != nil {
		c.check(f.Type, data, f)
	}
	return f
}

// until reads frames up to the first one for which last returns true.
func (c *chat) until(last func(frame) bool) (all []frame) {
	c.t.Helper()
	for i, f := range c.early {
		if last(f) {
			all, c.early = c.early[:i+1], c.early[i+1:]
			return all
		}
	}
	all, c.early = c.early, nil
	for end := time.Now().Add(system.Deadline); time.Now().Before(end); {
		f := c.next()
		if all = append(all, f); last(f) {
			return all
		}
	}
	c.t.Fatalf("the frame did not arrive; the last of %d frames is %+v", len(all), all[len(all)-1])
	return nil
}

func named(name string) func(frame) bool { return func(f frame) bool { return f.Event == name } }

// request sends a request and returns the answer. Frames that arrive before the answer are kept for until.
func (c *chat) request(method string, params any) (answer frame) {
	c.t.Helper()
	c.sent++
	id := strconv.Itoa(c.sent)
	data, err := json.Marshal(map[string]any{"type": "req", "id": id, "method": method, "params": params})
	if err == nil {
		err = c.ws.Write(bustest.Deadline(c.t), websocket.MessageText, data)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	early := c.early
	c.early = nil
	all := c.until(func(f frame) bool { return f.ID == id })
	c.early = append(early, all[:len(all)-1]...)
	return all[len(all)-1]
}

// The frames of the eleven events are those that follow from the log, and deltas.
func TestLifecycleFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.chat("?session=s1&stateVersion=0", nil)
	r.Prompt(t, "s1", "tool please")
	frames := c.until(named("agent_end"))
	text := map[string]string{}
	var got []string
	version := uint64(0)
	for _, f := range frames {
		var payload struct {
			MessageID, Delta string
			Index            int
		}
		v, err := strconv.ParseUint(string(f.StateVersion), 10, 64)
		if err != nil || v < version {
			t.Errorf("state version %s after %d", f.StateVersion, version)
		}
		version = v
		if err := json.Unmarshal(f.Payload, &payload); err != nil {
			t.Error(err)
		}
		if f.Event == "text_delta" {
			if payload.Index != len(text[payload.MessageID]) {
				t.Errorf("a delta at %d behind %q", payload.Index, text[payload.MessageID])
			}
			text[payload.MessageID] += payload.Delta
			continue
		}
		if f.Event != "tool_execution_update" {
			got = append(got, f.Event)
		}
	}
	want := []string{"agent_start", "turn_start", "message_start", "message_end", "tool_execution_start",
		"tool_execution_start", "tool_execution_end", "tool_execution_end", "turn_end", "turn_start", "message_start",
		"message_end", "turn_end", "agent_end"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the events are (-want +got):\n%s", d)
	}
	said := []string{}
	for _, s := range text {
		said = append(said, s)
	}
	slices.Sort(said)
	if d := cmp.Diff([]string{"I look", "it is done"}, said); d != "" {
		t.Errorf("the deltas come to (-want +got):\n%s", d)
	}
	for query, want := range map[string]int{"?session=s1&stateVersion=x": 400, "?session=a.b": 400} {
		if got := r.get("/gateway"+query, "Authorization", "Bearer "+chatToken); got.StatusCode != want {
			t.Errorf("%s: %d, want %d", query, got.StatusCode, want)
		}
	}
	if got := r.get("/gateway?session=s1"); got.StatusCode != http.StatusUnauthorized {
		t.Errorf("without the token: %d", got.StatusCode)
	}
}

// patterns of the schema are written for JavaScript's engine. Go's engine cannot compile some of them, and none is of a
// member that the bridge sends.
var patterns = regexp.MustCompile(`"pattern":\s*"(?:[^"\\]|\\.)*"`)

// protocolSchema validates frames with the schema of the protocol.
func protocolSchema(t *testing.T) func(kind string, data []byte, f frame) {
	t.Helper()
	node(t, "--version")
	text, err := os.ReadFile("node_modules/@openclaw/gateway-protocol/protocol.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	text = patterns.ReplaceAll(text, []byte(`"$$comment":""`))
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("protocol.json", bytes.NewReader(text)); err != nil {
		t.Fatal(err)
	}
	compiled := map[string]*jsonschema.Schema{}
	of := func(definition string) *jsonschema.Schema {
		if compiled[definition] == nil {
			if compiled[definition], err = compiler.Compile("protocol.json#/definitions/" + definition); err != nil {
				t.Fatal(err)
			}
		}
		return compiled[definition]
	}
	payloads := map[string]string{"chat": "ChatEvent", "agent": "AgentEvent", "tick": "TickEvent",
		"shutdown": "ShutdownEvent"}
	hold := func(definition string, data []byte) {
		var v any
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		if err := of(definition).Validate(v); err != nil {
			t.Errorf("%s is not a valid %s: %v", data, definition, err)
		}
	}
	return func(kind string, data []byte, f frame) {
		if strings.HasPrefix(string(f.Payload), `{"models":`) {
			hold("ModelsListResult", f.Payload)
		}
		hold(map[string]string{"event": "EventFrame", "res": "ResponseFrame"}[kind], data)
		if d := payloads[f.Event]; d != "" {
			hold(d, f.Payload)
		}
		if bytes.Contains(f.Payload, []byte(`"hello-ok"`)) {
			hold("HelloOk", f.Payload)
		}
	}
}

// Every frame matches the protocol's schema, in a conversation with all features.
func TestGatewayFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	c := r.chat("", protocolSchema(t))
	c.until(named("connect.challenge"))
	me := map[string]any{"minProtocol": 4, "maxProtocol": 4, "role": "operator", "caps": []string{"tool-events"},
		"client": map[string]any{"id": "test", "version": "1", "platform": "go", "mode": "test"}}
	if hello := c.request("connect", me); !hello.OK {
		t.Fatalf("hello: %+v", hello)
	}
	send := func(session, text, key string) {
		t.Helper()
		a := c.request("chat.send", map[string]any{"sessionKey": session, "message": text, "idempotencyKey": key})
		if !a.OK || !strings.Contains(string(a.Payload), `"runId":"`+key+`"`) {
			t.Fatalf("chat.send: %+v", a)
		}
	}
	over := func(state string) func(frame) bool {
		return func(f frame) bool {
			return f.Event == "chat" && strings.Contains(string(f.Payload), `"state":"`+state+`"`)
		}
	}
	if a := c.request("sessions.subscribe", map[string]any{}); !a.OK {
		t.Errorf("sessions.subscribe: %+v", a)
	}
	send("s1", "tool please", "k1")
	all := c.until(over("final"))
	waited := c.request("agent.wait", map[string]any{"runId": "k1", "timeoutMs": 10000})
	if !waited.OK || !strings.Contains(string(waited.Payload), `"status":"ok"`) {
		t.Errorf("agent.wait: %+v", waited)
	}
	var streams []string
	for _, f := range all {
		var a struct{ Stream string }
		if json.Unmarshal(f.Payload, &a) == nil && f.Event == "agent" && !slices.Contains(streams, a.Stream) {
			streams = append(streams, a.Stream)
		}
	}
	if d := cmp.Diff([]string{"lifecycle", "tool"}, streams); d != "" {
		t.Errorf("streams (-want +got):\n%s", d)
	}
	send("s1", "tool please", "k1") // a duplicate: it has no effect
	send("s2", "fail", "k2")
	c.until(over("error"))
	refused := map[string]any{"sessionKey": "s2", "message": "hello", "idempotencyKey": "k5",
		"attachments": []map[string]any{{"mimeType": "image/", "content": "eA=="}}}
	if a := c.request("chat.send", refused); !a.OK {
		t.Errorf("chat.send: %+v", a)
	}
	c.until(over("error"))
	send("s3", "hang", "k3")
	c.until(over("delta"))
	if a := c.request("chat.abort", map[string]any{"sessionKey": "s3", "runId": "other"}); !strings.Contains(
		string(a.Payload), `"aborted":false`) {
		t.Errorf("abort of another run: %+v", a)
	}
	waited = c.request("agent.wait", map[string]any{"runId": "k3", "timeoutMs": 1})
	if !strings.Contains(string(waited.Payload), `"status":"timeout"`) {
		t.Errorf("agent.wait for an unfinished run: %+v", waited)
	}
	aborted := c.request("chat.abort", map[string]any{"sessionKey": "s3", "runId": "k3"})
	if !strings.Contains(string(aborted.Payload), `"aborted":true`) {
		t.Errorf("abort: %+v", aborted)
	}
	c.until(over("aborted"))
	for method, params := range map[string]any{"health": nil, "sessions.list": map[string]any{"limit": 5},
		"chat.history":                  map[string]any{"sessionKey": "s1", "limit": 3},
		"sessions.messages.subscribe":   map[string]any{"key": "s1"},
		"sessions.messages.unsubscribe": map[string]any{"key": "s1"}, "exec.approval.list": map[string]any{}} {
		if a := c.request(method, params); !a.OK {
			t.Errorf("%s: %+v", method, a)
		}
	}
	waited = c.request("agent.wait", map[string]any{"runId": "k2"})
	if !strings.Contains(string(waited.Payload), `"status":"error"`) {
		t.Errorf("agent.wait for a run that failed: %+v", waited)
	}
	c.until(func(f frame) bool {
		return f.Event == "sessions.changed" && strings.Contains(string(f.Payload), `"s3"`)
	})
	if a := c.request("sessions.unsubscribe", map[string]any{}); !strings.Contains(string(a.Payload), "false") {
		t.Errorf("sessions.unsubscribe: %+v", a)
	}
	models := c.request("models.list", map[string]any{})
	if !models.OK {
		t.Errorf("models.list: %+v", models)
	}
	for method, params := range map[string]any{"no.such": nil, "agent.wait": map[string]any{"runId": "other"},
		"chat.send":    map[string]any{"sessionKey": "s1"},
		"chat.history": 7, "exec.approval.resolve": map[string]any{"id": "x", "decision": "deny"}} {
		if a := c.request(method, params); a.OK || a.Error.Code != "INVALID_REQUEST" {
			t.Errorf("%s: %+v", method, a)
		}
	}
	send("s4", "danger", "k4")
	asked := c.until(named("exec.approval.requested"))
	var approval struct{ ID string }
	if err := json.Unmarshal(asked[len(asked)-1].Payload, &approval); err != nil {
		t.Fatal(err)
	}
	list := c.request("exec.approval.list", map[string]any{})
	if !strings.Contains(string(list.Payload), approval.ID) {
		t.Errorf("the list is %s", list.Payload)
	}
	c.early = nil
	if a := c.request("exec.approval.resolve", map[string]any{"id": approval.ID, "decision": "allow-once"}); !a.OK {
		t.Errorf("resolve: %+v", a)
	}
	c.until(over("final"))
	c.until(named("tick"))
	r.stopChat()
	c.until(named("shutdown"))
}

// Silent connections beyond the limit do not keep other clients out: the gateway closes them.
func TestSilentConnectionsMakeRoom(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	url := strings.Replace(r.url, "http", "ws", 1) + "/gateway"
	var first *websocket.Conn
	for range 200 {
		ws, _, err := websocket.Dial(bustest.Deadline(t), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		if _, _, err := ws.Read(bustest.Deadline(t)); err != nil { // connect.challenge
			t.Fatal(err)
		}
		if first == nil {
			first = ws
		}
	}
	c := r.chat("", nil)
	c.until(named("connect.challenge"))
	if a := c.request("connect", map[string]any{"minProtocol": 4, "maxProtocol": 4}); !a.OK {
		t.Errorf("a client that connects: %+v", a)
	}
	ended := bustest.Deadline(t)
	if _, _, err := first.Read(ended); err == nil || ended.Err() != nil {
		t.Errorf("the first silent connection: %v", err)
	}
}

func TestGatewayRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	url := strings.Replace(r.url, "http", "ws", 1) + "/gateway"
	dial := func() *chat {
		t.Helper()
		ws, _, err := websocket.Dial(bustest.Deadline(t), url, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = ws.CloseNow() })
		c := &chat{t: t, ws: ws}
		c.until(named("connect.challenge"))
		return c
	}
	for what, params := range map[string]map[string]any{
		"no token":         {"minProtocol": 4, "maxProtocol": 4},
		"another token":    {"minProtocol": 4, "maxProtocol": 4, "auth": map[string]any{"token": "no"}},
		"another protocol": {"minProtocol": 5, "maxProtocol": 5, "auth": map[string]any{"token": chatToken}},
	} {
		if a := dial().request("connect", params); a.OK || strings.Contains(a.Error.Message, chatToken) {
			t.Errorf("%s: %+v", what, a)
		}
	}
	if a := dial().request("chat.send", map[string]any{}); a.OK {
		t.Errorf("a request before connect: %+v", a)
	}
	c := dial()
	big, err := json.Marshal(map[string]any{"type": "req", "id": "1", "method": "connect",
		"params": strings.Repeat("x", 100_000)})
	if err != nil {
		t.Fatal(err)
	}
	_ = c.ws.Write(t.Context(), websocket.MessageText, big)
	if _, _, err := c.ws.Read(bustest.Deadline(t)); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("an oversized frame before connect: %v", err)
	}
	_, response, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: http.Header{
		"Origin": {"https://evil.example.com"}}})
	if err == nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another origin: %v", err)
	}
}
