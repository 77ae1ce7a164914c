//go:build unix

package anylanguage_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// golden is a message of an older version, from the golden files of package bus.
type golden struct {
	About   string      `json:"about"`
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header"`
	Payload string      `json:"payload"`
}

// goldenCall is the call of the golden results.
const goldenCall = "c9"

// A runner of this version works with workers of every version: it offers the tools that they announce, sends requests
// with all members that they read, and accepts their answers. What it asks of them besides is the nonce of the call.
func TestIsServedByOlderWorkers(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("..", "..", "bus", "codec", "testdata", "golden", "*", "wire.ndjson"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden messages: %v", err)
	}
	for _, file := range files {
		version := readGolden(t, file)
		results := 0
		for _, m := range version {
			if strings.HasPrefix(m.About, "tool result") {
				results++
				t.Run(filepath.Base(filepath.Dir(file))+" "+m.About, func(t *testing.T) {
					playOldWorker(t, about(t, version, "tool announcement"), about(t, version, "tool request"), m)
				})
			}
		}
		if results == 0 {
			t.Errorf("%s has no results", file)
		}
	}
}

func playOldWorker(t *testing.T, announcement, request, result golden) {
	var definition schemas.ToolAnnouncement
	var answer schemas.ToolAnswer
	decodeJSON(t, announcement.Payload, &definition)
	decodeJSON(t, result.Payload, &answer)
	model, err := scripted.NewScripts(scripted.Options{}, scripted.Script{Responses: []scripted.Response{
		scripted.Calls("", schemas.ToolCall{ID: answer.ToolCallID, Name: definition.Name,
			Arguments: json.RawMessage(`{"path":"a"}`)}),
		scripted.Text("read"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	s := system.StartAlone(t, system.Options{Model: model, Host: func(h *host.Options) {
		h.Policy.Scopes = definition.Scopes // a tool with a scope is offered only if the scope is granted
	}})
	js := s.Client.JetStream()
	entry := &nats.Msg{Subject: "$KV.agent_tools." + definition.Name + "." + definition.Worker,
		Data: []byte(announcement.Payload)}
	if _, err := js.PublishMsg(t.Context(), entry, jetstream.WithMsgTTL(system.Deadline)); err != nil {
		t.Fatal(err)
	}
	if err := s.Toolbox.Wait(t.Context(), definition.Name); err != nil {
		t.Fatal(err)
	}
	session, _, err := schemas.Subjects{}.ParseCommand(result.Subject)
	if err != nil {
		t.Fatal(err)
	}
	s.Prompt(t, session, "read a")
	call, nonce := takeOldCall(t, s, session, definition.Name, request)
	payload := strings.ReplaceAll(result.Payload, `"`+goldenCall+`"`, `"`+call+`"`)
	payload = strings.ReplaceAll(payload, `"result/`+goldenCall+`"`, `"result/`+call+`"`)
	header := nats.Header{}
	maps.Copy(header, result.Header)
	header[jetstream.MsgIDHeader] = []string{session + "/" + call + "/" + nonce + "/result"}
	if _, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: result.Subject, Header: header,
		Data: []byte(payload)}); err != nil {
		t.Fatal(err)
	}
	log := s.Until(t, session, "the end of the run", system.Ends(1))
	ends := system.DataOf[*schemas.ToolExecutionEnd](log)
	if len(ends) != 1 || string(ends[0].Call) != call || ends[0].IsError != answer.IsError ||
		ends[0].Worker != answer.Worker {
		t.Fatalf("result %s", describe(ends))
	}
	if d := cmp.Diff(answer.Result.Content, ends[0].Result.Content); d != "" {
		t.Errorf("content (-sent +logged):\n%s", d)
	}
	if said := system.Replied(log); !slices.Equal(said, []string{"", "read"}) {
		t.Errorf("the model said %q", said)
	}
}

// takeOldCall receives the call as an older worker does: its consumer has the settings of that version, and it reads
// the members that a request had then.
func takeOldCall(t *testing.T, s *system.System, session, tool string, request golden) (call, nonce string) {
	t.Helper()
	queue, err := s.Client.JetStream().CreateConsumer(t.Context(), schemas.StreamTools, jetstream.ConsumerConfig{
		Durable: tool, FilterSubject: "agent.tool." + tool + ".*.*", AckPolicy: jetstream.AckExplicitPolicy, MaxDeliver: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	msg, err := queue.Next(jetstream.FetchMaxWait(system.Deadline))
	if err != nil {
		t.Fatal(err)
	}
	if prefix := "agent.tool." + tool + "." + session + "."; !strings.HasPrefix(msg.Subject(), prefix) {
		t.Errorf("the call is at %s", msg.Subject())
	}
	var then, now map[string]any
	decodeJSON(t, request.Payload, &then)
	decodeJSON(t, string(msg.Data()), &now)
	for name := range then {
		if _, ok := now[name]; !ok && name != "traceparent" { // which is present only with tracing
			t.Errorf("the request has no %s: %s", name, msg.Data())
		}
	}
	if err := msg.DoubleAck(t.Context()); err != nil {
		t.Fatal(err)
	}
	call, _ = now["call"].(string)
	nonce, _ = now["nonce"].(string)
	return call, nonce
}

func about(t *testing.T, messages []golden, what string) golden {
	t.Helper()
	i := slices.IndexFunc(messages, func(m golden) bool { return m.About == what })
	if i < 0 {
		t.Fatalf("no golden %s", what)
	}
	return messages[i]
}

func readGolden(t *testing.T, file string) (messages []golden) {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(raw) {
		var m golden
		decodeJSON(t, string(line), &m)
		messages = append(messages, m)
	}
	return messages
}

func decodeJSON(t *testing.T, text string, to any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), to); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}
