package schemas_test

import (
	"encoding/json"
	"errors"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

func sampleEvent() schemas.Event {
	return schemas.Event{
		Session: "s1", Seq: 42, Time: time.Date(2026, 1, 2, 3, 4, 5, 678900000, time.UTC),
		Source: "/loopbus/runner/Zürich \"x\" 100%",
		RunID:  "r1", TurnID: "r1-t0", CorrelationID: "cmd 1", CausationID: "cmd\n2",
		TraceParent: "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", PrevHash: strings.Repeat("ab", 32),
		Data: &schemas.ToolExecutionStart{ToolCallID: "a|b", ToolName: "ls", Args: json.RawMessage(`{"z":1,"a":"<>"}`)},
	}
}

func sampleUpdate() schemas.Update {
	return schemas.Update{
		Session: "s1", Event: 42, N: 7, Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Source: "/loopbus/runner/1",
		RunID: "r1", TurnID: "r1-t0",
		Data: &schemas.MessageUpdate{MessageID: "m1", AssistantMessageEvents: []schemas.StreamEvent{
			{Type: schemas.StreamTextDelta, ContentIndex: 1, Delta: "hi"}}},
	}
}

func TestEventRoundTrip(t *testing.T) {
	bare := schemas.Event{Session: "s1", Seq: 1, Time: time.Unix(0, 0).UTC(), Source: "/x", Data: &schemas.TurnStart{}}
	for _, want := range []schemas.Event{sampleEvent(), bare} {
		header, payload, err := schemas.EncodeEvent(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := schemas.DecodeEvent(header, payload)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if err := schemas.ValidateEvent(got.Type(), payload); err != nil {
			t.Error(err)
		}
	}
}

func TestUpdateRoundTrip(t *testing.T) {
	want := sampleUpdate()
	header, payload, err := schemas.EncodeUpdate(want)
	if err != nil {
		t.Fatal(err)
	}
	got, err := schemas.DecodeUpdate(header, payload)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// The headers are the wire contract: every one, byte for byte.
func TestEventHeaders(t *testing.T) {
	header, payload, err := schemas.EncodeEvent(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ce-specversion": {"1.0"}, "ce-id": {"s1/42"}, "ce-source": {"/loopbus/runner/Z%C3%BCrich%20%22x%22%20100%25"},
		"ce-type": {"dev.loopbus.tool_execution_start.v1"}, "ce-subject": {"s1"}, "ce-time": {"2026-01-02T03:04:05.6789Z"},
		"ce-datacontenttype": {"application/json"},
		"ce-dataschema":      {"https://loopbus.dev/schemas/events/tool_execution_start.v1.json"},
		"ce-sequence":        {"00000000000000000042"}, "ce-runid": {"r1"}, "ce-turnid": {"r1-t0"},
		"ce-correlationid": {"cmd%201"}, "ce-causationid": {"cmd%0A2"}, "ce-partitionkey": {"s1"},
		"ce-traceparent": {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"},
		"ce-prevhash":    {strings.Repeat("ab", 32)},
	}
	if d := cmp.Diff(want, header); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
	if got := string(payload); got != `{"toolCallId":"a|b","toolName":"ls","args":{"z":1,"a":"<>"}}` {
		t.Errorf("payload %s", got)
	}
}

func TestUpdateHeaders(t *testing.T) {
	header, _, err := schemas.EncodeUpdate(sampleUpdate())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string][]string{
		"ce-specversion": {"1.0"}, "ce-id": {"s1/42.7"}, "ce-source": {"/loopbus/runner/1"},
		"ce-type": {"dev.loopbus.message_update.v1"}, "ce-subject": {"s1"}, "ce-time": {"2026-01-02T03:04:05Z"},
		"ce-datacontenttype": {"application/json"},
		"ce-dataschema":      {"https://loopbus.dev/schemas/updates/message_update.v1.json"},
		"ce-sequence":        {"00000000000000000042.000007"}, "ce-runid": {"r1"}, "ce-turnid": {"r1-t0"},
	}
	if d := cmp.Diff(want, header); d != "" {
		t.Errorf("headers (-want +got):\n%s", d)
	}
}

func TestDecodeEventRefuses(t *testing.T) {
	header, payload, err := schemas.EncodeEvent(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"ce-specversion", "ce-id", "ce-source", "ce-type", "ce-time"} {
		h := maps.Clone(header)
		delete(h, key)
		if _, err := schemas.DecodeEvent(h, payload); !errors.Is(err, schemas.ErrAttribute) ||
			!strings.Contains(err.Error(), key) {
			t.Errorf("without %s: error %v", key, err)
		}
	}
	for name, test := range map[string]struct{ key, value string }{
		"version":                    {"ce-specversion", "0.3"},
		"id without sequence":        {"ce-id", "s1"},
		"id with sequence 0":         {"ce-id", "s1/0"},
		"id with leading zero":       {"ce-id", "s1/042"},
		"id with negative sequence":  {"ce-id", "s1/-1"},
		"id with too large sequence": {"ce-id", "s1/18446744073709551616"},
		"time":                       {"ce-time", "yesterday"},
		"percent-encoding":           {"ce-source", "a%2"},
		"percent-encoding of an optional attribute": {"ce-runid", "%zz"},
	} {
		h := maps.Clone(header)
		h[test.key] = []string{test.value}
		if _, err := schemas.DecodeEvent(h, payload); !errors.Is(err, schemas.ErrAttribute) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	h := maps.Clone(header)
	h["ce-id"] = []string{"a.b/1"}
	if _, err := schemas.DecodeEvent(h, payload); !errors.Is(err, schemas.ErrSubject) {
		t.Errorf("illegal session: error %v", err)
	}
	var unknown *schemas.UnknownTypeError
	for _, ceType := range []string{"com.example.x", "dev.loopbus.agent_dance.v1", "dev.loopbus.turn_start.v2",
		"dev.loopbus.message_update.v1"} {
		h["ce-id"], h["ce-type"] = []string{"s1/1"}, []string{ceType}
		if _, err := schemas.DecodeEvent(h, payload); !errors.As(err, &unknown) {
			t.Errorf("type %s: error %v", ceType, err)
		}
	}
	if _, err := schemas.DecodeEvent(header, []byte(`{`)); err == nil {
		t.Error("a broken payload is decoded")
	}
}

func TestDecodeUpdateRefuses(t *testing.T) {
	header, payload, err := schemas.EncodeUpdate(sampleUpdate())
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"s1/42", "s1/42.0", "s1/42.", "s1/0.7", "s1.7", "s1/42.x", ""} {
		h := maps.Clone(header)
		h["ce-id"] = []string{id}
		if _, err := schemas.DecodeUpdate(h, payload); !errors.Is(err, schemas.ErrAttribute) {
			t.Errorf("id %q: error %v", id, err)
		}
	}
}

func TestEncodeRefusesWhatNobodyCouldReadBack(t *testing.T) {
	for name, change := range map[string]func(*schemas.Event){
		"no source":       func(e *schemas.Event) { e.Source = "" },
		"sequence 0":      func(e *schemas.Event) { e.Seq = 0 },
		"illegal session": func(e *schemas.Event) { e.Session = "a.b" },
	} {
		e := sampleEvent()
		change(&e)
		if _, _, err := schemas.EncodeEvent(e); err == nil {
			t.Errorf("%s: encoded", name)
		}
	}
	u := sampleUpdate()
	u.Source = ""
	if _, _, err := schemas.EncodeUpdate(u); !errors.Is(err, schemas.ErrAttribute) {
		t.Errorf("update without source: error %v", err)
	}
}

func TestHeaderValues(t *testing.T) {
	for plain, encoded := range map[string]string{
		"": "", "abc/~!'()*": "abc/~!'()*", `Zürich "x" 100%`: "Z%C3%BCrich%20%22x%22%20100%25", "a\r\nb\x7f": "a%0D%0Ab%7F",
		"€": "%E2%82%AC", "😀": "%F0%9F%98%80", "\xff": "%FF",
	} {
		if got := schemas.EncodeHeaderValue(plain); got != encoded {
			t.Errorf("encode %q: %q, want %q", plain, got, encoded)
		}
		if got, err := schemas.DecodeHeaderValue(encoded); err != nil || got != plain {
			t.Errorf("decode %q: %q, %v, want %q", encoded, got, err, plain)
		}
	}
	for lax, want := range map[string]string{"Zürich x": "Zürich x", "%c3%bc": "ü", "a%41": "aA"} {
		if got, err := schemas.DecodeHeaderValue(lax); err != nil || got != want {
			t.Errorf("decode %q: %q, %v, want %q", lax, got, err, want)
		}
	}
	for _, broken := range []string{"%", "a%2", "%zz", "%+1", "% 1", "%%41"} {
		if got, err := schemas.DecodeHeaderValue(broken); err == nil {
			t.Errorf("decode %q: %q", broken, got)
		}
	}
}

func TestDataRef(t *testing.T) {
	if got := schemas.DataRef(map[string][]string{"ce-dataref": {"nats:obj/a%20b"}}); got != "nats:obj/a b" {
		t.Error(got)
	}
	if got := schemas.DataRef(nil); got != "" {
		t.Error(got)
	}
}

// Logs are chained with this hash: it can never change for what is stored.
func TestHashIsStable(t *testing.T) {
	header, payload, err := schemas.EncodeEvent(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	const want = "b33923273375404992b666b250b3aa314f0103bf823d2da165bb1aaf118ac59b"
	if got := schemas.Hash(header, payload); got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	header["Nats-Expected-Last-Subject-Sequence"] = []string{"41"}
	header["Content-Type"] = []string{"application/json"}
	if got := schemas.Hash(header, payload); got != want {
		t.Error("headers of the transport count")
	}
	for name, change := range map[string]func(map[string][]string) []byte{
		"payload":        func(map[string][]string) []byte { return append(payload, ' ') },
		"header":         func(h map[string][]string) []byte { h["ce-runid"] = []string{"r2"}; return payload },
		"missing header": func(h map[string][]string) []byte { delete(h, "ce-runid"); return payload },
		"new header":     func(h map[string][]string) []byte { h["ce-x"] = []string{""}; return payload },
		"second value":   func(h map[string][]string) []byte { h["ce-runid"] = []string{"r1", "r1"}; return payload },
	} {
		h := maps.Clone(header)
		if p := change(h); schemas.Hash(h, p) == want {
			t.Errorf("%s does not count", name)
		}
	}
}

func TestCloudEventTypes(t *testing.T) {
	if got := schemas.CloudEventType(schemas.EventAgentStart); got != "dev.loopbus.agent_start.v1" {
		t.Error(got)
	}
	for _, e := range schemas.DurableEventTypes() {
		if name, err := schemas.ParseCloudEventType(schemas.CloudEventType(e)); err != nil || name != string(e) {
			t.Errorf("%s: %s, %v", e, name, err)
		}
	}
}
