package codec_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/cloudevents/sdk-go/v2/binding"
	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
)

func sampleEvent(t testing.TB) event.Event {
	t.Helper()
	e := event.New()
	e.SetID("s1/7")
	e.SetType("dev.loopbus.prompt.v1")
	e.SetSource("/loopbus/Zürich?q=a%20b")
	e.SetSubject(`quote " percent % space é 𝄞`)
	e.SetTime(time.Date(2026, 2, 3, 4, 5, 6, 7, time.UTC))
	e.SetDataSchema("https://loopbus.dev/schemas/commands/prompt.v1.json")
	e.SetExtension("sequence", "00000000000000000007")
	e.SetExtension("sampledrate", "3")
	if err := e.SetData(event.ApplicationJSON, map[string]string{"text": "hé <b>"}); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestSDKReadsAndWritesBinaryMode(t *testing.T) {
	want := sampleEvent(t)
	msg, err := codec.EncodeCloudEvent(want)
	if err != nil {
		t.Fatal(err)
	}
	for key, values := range msg.Header {
		if strings.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' || r == '"' }) {
			t.Errorf("header %s is not percent-encoded: %q", key, values[0])
		}
	}
	got, err := binding.ToEvent(t.Context(), &sdkMessage{header: msg.Header, data: msg.Data})
	if err != nil {
		t.Fatal(err)
	}
	sameEvent(t, want, *got)

	var back sdkMessage
	ctx := binding.WithForceBinary(t.Context())
	if _, err := binding.Write(ctx, binding.ToMessage(got), nil, &back); err != nil {
		t.Fatal(err)
	}
	ours, mode, err := codec.DecodeCloudEvent(back.header, back.data)
	if err != nil || mode != codec.ModeBinary {
		t.Fatalf("mode %v, err %v", mode, err)
	}
	sameEvent(t, want, ours)
}

func TestDecodeStructuredModeOfSDK(t *testing.T) {
	want := sampleEvent(t)
	var msg sdkMessage
	ctx := binding.WithForceStructured(t.Context())
	if _, err := binding.Write(ctx, binding.ToMessage(&want), &msg, nil); err != nil {
		t.Fatal(err)
	}
	for name, header := range map[string]nats.Header{
		"with content type":    msg.header,
		"with its parameters":  {"Content-Type": {event.ApplicationCloudEventsJSON + "; charset=UTF-8"}},
		"without content type": nil,
	} {
		t.Run(name, func(t *testing.T) {
			got, mode, err := codec.DecodeCloudEvent(header, msg.data)
			if err != nil || mode != codec.ModeStructured {
				t.Fatalf("mode %v, err %v", mode, err)
			}
			sameEvent(t, want, got)
		})
	}
}

func sameEvent(t *testing.T, want, got event.Event) {
	t.Helper()
	if err := got.Validate(); err != nil {
		t.Errorf("not valid: %v", err)
	}
	if d := cmp.Diff(attributesOf(t, want), attributesOf(t, got)); d != "" {
		t.Errorf("event (-want +got):\n%s", d)
	}
}

// attributesOf returns the JSON format of an event, by which two events are compared.
func attributesOf(t *testing.T, e event.Event) map[string]any {
	t.Helper()
	b, err := json.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		t.Fatal(err)
	}
	return m
}

func TestLogEventsAreCloudEvents(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789, time.UTC)
	e := schemas.Event{
		Session: "s1", Seq: 12, Time: at, Source: "/loopbus/runner/r 1", RunID: "run-1", TurnID: "turn-1",
		CorrelationID: "c1", CausationID: "c2", PrevHash: strings.Repeat("a", 64),
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
		Data:        &schemas.ErrorEvent{Code: "internal", Message: "größer < 1 %", Recoverable: true},
	}
	got, err := codec.ToCloudEvent(e)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"specversion": "1.0", "id": "s1/12", "source": "/loopbus/runner/r%201", "type": "dev.loopbus.error.v1",
		"subject": "s1", "time": "2026-02-03T04:05:06.000000789Z", "datacontenttype": "application/json",
		"dataschema": "https://loopbus.dev/schemas/events/error.v1.json",
		"sequence":   "00000000000000000012", "runid": "run-1", "turnid": "turn-1", "correlationid": "c1",
		"causationid": "c2", "partitionkey": "s1", "prevhash": e.PrevHash, "traceparent": e.TraceParent,
		"data": map[string]any{"code": "internal", "message": "größer < 1 %", "recoverable": true},
	}
	if d := cmp.Diff(want, attributesOf(t, got)); d != "" {
		t.Errorf("attributes (-want +got):\n%s", d)
	}
	if err := got.Validate(); err != nil {
		t.Errorf("not valid: %v", err)
	}
	msg, err := codec.EncodeCloudEvent(got)
	if err != nil {
		t.Fatal(err)
	}
	back, err := schemas.DecodeEvent(msg.Header, msg.Data)
	if err != nil {
		t.Fatal(err)
	}
	e.Source = "/loopbus/runner/r%201" // the SDK parses and normalises it as a URI
	if d := cmp.Diff(e, back); d != "" {
		t.Errorf("decoded by package schemas (-want +got):\n%s", d)
	}
}

func TestUpdatesAreCloudEvents(t *testing.T) {
	u := schemas.Update{
		Session: "s1", Event: 3, N: 4, Time: time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC), Source: "/loopbus/runner/r1",
		RunID: "run-1", Data: &schemas.ToolExecutionUpdate{ToolCallID: "t", ToolName: "bash", Call: "c9"},
	}
	got, err := codec.UpdateToCloudEvent(u)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Validate(); err != nil || got.ID() != "s1/3.4" || got.Type() != "dev.loopbus.tool_execution_update.v1" {
		t.Errorf("id %s, type %s, %v", got.ID(), got.Type(), err)
	}
}

func TestInvalidCloudEventsAreRejected(t *testing.T) {
	structured := nats.Header{"Content-Type": {"application/cloudevents+json"}}
	binary := func(kv ...string) nats.Header {
		h := nats.Header{"ce-specversion": {"1.0"}, "ce-id": {"1"}, "ce-source": {"/x"}, "ce-type": {"t"}}
		for i := 0; i < len(kv); i += 2 {
			h[kv[i]] = []string{kv[i+1]}
			if kv[i+1] == "" {
				delete(h, kv[i])
			}
		}
		return h
	}
	tests := []struct {
		name   string
		header nats.Header
		data   string
		want   string
	}{
		{"a batch", nats.Header{"Content-Type": {"application/cloudevents-batch+json"}}, `[]`, "not supported"},
		{"another format", nats.Header{"Content-Type": {"application/cloudevents+xml"}}, `<e/>`, "not supported"},
		{"not an object", structured, `[1]`, "not a JSON object"},
		{"no specversion", structured, `{"id":"1","source":"/x","type":"t"}`, "specversion"},
		{"another specversion", structured, `{"specversion":"0.3","id":"1","source":"/x","type":"t"}`, "is not 1.0"},
		{"no id", structured, `{"specversion":"1.0","source":"/x","type":"t"}`, "id: MUST"},
		{"an id of the wrong type", structured, `{"specversion":"1.0","id":5,"source":"/x","type":"t"}`, `"id"`},
		{"data twice", structured, `{"specversion":"1.0","id":"1","source":"/x","type":"t","data":1,"data_base64":"YQ=="}`,
			"exclude"},
		{"data_base64 a number", structured, `{"data_base64":1,"specversion":"1.0","id":"1","source":"/x","type":"t"}`,
			"not a string"},
		{"an extension that is an object", structured, `{"specversion":"1.0","id":"1","source":"/x","type":"t","a":{}}`,
			"neither"},
		{"a broken time", structured, `{"specversion":"1.0","id":"1","source":"/x","type":"t","time":"noon"}`, "RFC 3339"},
		{"binary, no id", binary("ce-id", ""), ``, "id: MUST"},
		{"binary, no source", binary("ce-source", ""), ``, "source"},
		{"binary, no type", binary("ce-type", ""), ``, "type: MUST"},
		{"binary, another specversion", binary("ce-specversion", "2.0"), ``, "is not 1.0"},
		{"binary, broken encoding", binary("ce-subject", "100%"), ``, "percent-encoding"},
		{"binary, not UTF-8", binary("ce-subject", "%FF"), ``, "UTF-8"},
		{"binary, an illegal extension name", binary("ce-my_ext", "x"), ``, "my_ext"},
		{"binary, a broken content type", binary("ce-datacontenttype", "/"), ``, "datacontenttype"},
		{"binary, a value twice", nats.Header{"ce-specversion": {"1.0", "1.0"}}, ``, "2 values"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, _, err := codec.DecodeCloudEvent(tt.header, []byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
