package schemas

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// anyOf are values of each kind that are written in different ways.
var anyOf = map[reflect.Kind][]any{
	reflect.String: {"", "plain", `quo"te`, "back\\slash", "new\nline", "\ttab\r\n", "\"\u00e9", "\x00\x1f\x7f",
		"\u00e9\U0001F600", "\u2028", "<&>", "\xff"},
	reflect.Int: {0, 1, -5}, reflect.Int64: {int64(0), int64(7), int64(-1), int64(1 << 60)},
	reflect.Uint64:  {uint64(0), uint64(1), uint64(math.MaxUint64)},
	reflect.Bool:    {false, true},
	reflect.Float64: {0.0, math.Copysign(0, -1), 1.0, -3.0, 0.25, 1e-7, 1e21, 123456789012.5, float64(1 << 60)},
}

// noUsage is how a usage of nothing is written.
const noUsage = `{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":0,` +
	`"cost":{"input":0,"output":0,"cacheRead":0,"cacheWrite":0,"total":0}}`

// fill gives v any value.
func fill(r *rand.Rand, v reflect.Value) {
	pick := func(n int) int { return r.IntN(n) }
	switch v.Type() {
	case reflect.TypeFor[json.RawMessage]():
		raws := []json.RawMessage{nil, json.RawMessage(`{}`), json.RawMessage("{ \"a\" : [1,\n2, \"<\u2028\"] }"),
			json.RawMessage(`"x"`)}
		v.Set(reflect.ValueOf(raws[pick(len(raws))]))
		return
	case reflect.TypeFor[StreamEventType]():
		types := []StreamEventType{StreamStart, StreamTextStart, StreamTextDelta, StreamTextEnd, StreamToolCallStart,
			StreamToolCallDelta, StreamToolCallEnd, StreamDone, StreamError, "song"}
		v.Set(reflect.ValueOf(types[pick(len(types))]))
		return
	case reflect.TypeFor[Content]():
		contents := []Content{new(Text), new(Thinking), new(Image), new(ToolCall)}
		c := reflect.ValueOf(contents[pick(len(contents))])
		fill(r, c.Elem())
		v.Set(c.Elem())
		return
	case reflect.TypeFor[Message]():
		messages := []Message{new(AssistantMessage), new(ToolResultMessage), new(UserMessage),
			&CustomMessage{Role: "x", Raw: json.RawMessage(`{"role":"x"}`)}, nil}
		m := messages[pick(len(messages))]
		if _, custom := m.(*CustomMessage); !custom && m != nil {
			fill(r, reflect.ValueOf(m).Elem())
		}
		if m != nil {
			v.Set(reflect.ValueOf(m))
		}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		if pick(4) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(r, v.Elem())
		}
	case reflect.Map, reflect.Func: // nothing in it says how it is written
	case reflect.Struct:
		for i := range v.NumField() {
			fill(r, v.Field(i))
		}
	case reflect.Slice:
		if n := pick(4); n < 3 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
		}
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	default:
		values := anyOf[v.Kind()]
		v.Set(reflect.ValueOf(values[pick(len(values))]).Convert(v.Type()))
	}
}

// What is appended is what package encoding/json writes.
func TestAppendedIsWhatJSONWrites(t *testing.T) {
	t.Parallel()
	const times = 300
	r := rand.New(rand.NewPCG(1, 2))
	for _, v := range []appender{
		new(TurnStart), new(TurnEnd), new(MessageStart), new(MessageEnd), new(ToolExecutionStart), new(ToolExecutionEnd),
		new(ToolResult), new(ToolRequest), new(ToolAnswer), new(AssistantMessage), new(ToolResultMessage),
		new(UserMessage), new(Usage), new(Text), new(Thinking), new(ToolCall), new(ModelRequest), new(ModelFrame),
		new(StreamEvent),
	} {
		for range times {
			reflect.ValueOf(v).Elem().SetZero()
			fill(r, reflect.ValueOf(v).Elem())
			want, err := marshalPlain(v)
			if err != nil {
				t.Fatalf("%#v: %v", v, err)
			}
			got, err := appendValue([]byte("before"), v)
			if err != nil || string(got) != "before"+string(want) {
				t.Fatalf("%#v, %v\nwant %s\ngot  %s", v, err, want, got)
			}
		}
	}
}

// So are model calls, of which most take the short way.
func TestWrittenModelCallsAreReadBack(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(5, 6))
	readBack(t, r, writtenModelRequest)
	readBack(t, r, writtenModelFrame)
}

func readBack[T any](t *testing.T, r *rand.Rand, read func([]byte) (T, bool)) {
	t.Helper()
	const times = 2000
	short := 0
	for range times {
		var v T
		fill(r, reflect.ValueOf(&v).Elem())
		payload, err := marshalPlain(v)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := read(payload)
		if !ok {
			continue
		}
		short++
		var want T
		err = json.Unmarshal(payload, &want)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("%s, %v (-want +got):\n%s", payload, err, d)
		}
		at := r.IntN(len(payload))
		if _, ok := read(payload[:at]); ok {
			t.Fatalf("%s: the first %d bytes are read", payload, at)
		}
		payload[at] = `0"{,x `[r.IntN(6)]
		if got, ok = read(payload); ok {
			want = *new(T)
			err = json.Unmarshal(payload, &want)
			if d := cmp.Diff(want, got); err != nil || d != "" {
				t.Fatalf("%s, %v (-want +got):\n%s", payload, err, d)
			}
		}
	}
	if short < times/20 {
		t.Errorf("%d of %d values of %T take the short way", short, times, *new(T))
	}
}

// What is written is read as package encoding/json reads it, by the short way or the long one.
func TestWrittenMessagesAreReadBack(t *testing.T) {
	t.Parallel()
	const times = 2000
	r := rand.New(rand.NewPCG(3, 4))
	short := 0
	for range times {
		var m AnyMessage
		fill(r, reflect.ValueOf(&m.Message).Elem())
		payload, err := marshalPlain(m)
		if err != nil {
			t.Fatal(err)
		}
		got, ok := writtenMessage(payload)
		if !ok {
			continue
		}
		short++
		want, err := decodeMessage(payload)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Fatalf("%s, %v (-want +got):\n%s", payload, err, d)
		}
	}
	if short < times/20 {
		t.Errorf("%d of %d messages take the short way", short, times)
	}
	reply := `{"role":"assistant","content":[{"type":"toolCall","id":"t1","name":"echo","arguments":{"v":"x\\"}}],` +
		`"api":"a","provider":"p","model":"m","usage":` + noUsage + `,"stopReason":"toolUse","timestamp":7}`
	if _, ok := writtenMessage([]byte(reply)); !ok {
		t.Errorf("%s takes the long way", reply)
	}
	for i := range reply {
		if m, ok := writtenMessage([]byte(reply[:i])); ok {
			t.Errorf("%s is read as %v", reply[:i], m)
		}
	}
}

// FuzzWrittenMessage holds the short way against the long one.
func FuzzWrittenMessage(f *testing.F) {
	f.Add([]byte(`{"role":"user","content":[{"type":"text","text":"a\u00e9"}],"timestamp":1}`))
	f.Add([]byte(`{"role":"toolResult","toolCallId":"t","toolName":"n","content":[],"details":{},"isError":true}`))
	f.Add([]byte(`{"role":"assistant","content":[{"type":"thinking","thinking":"x"}],"usage":` + noUsage +
		`,"stopReason":"stop"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, ok := writtenMessage(raw)
		if !ok {
			return
		}
		want, err := decodeMessage(raw)
		if d := cmp.Diff(want, got); err != nil || d != "" {
			t.Errorf("%q, %v (-want +got):\n%s", raw, err, d)
		}
	})
}

func TestWhatCannotBeAppended(t *testing.T) {
	t.Parallel()
	for _, v := range []appender{
		&ToolExecutionStart{Args: json.RawMessage(`{"a"`)}, &ToolExecutionStart{Args: json.RawMessage{}},
		&ToolExecutionEnd{Result: ToolResult{Details: json.RawMessage(`}`)}},
		&MessageEnd{Message: AnyMessage{&AssistantMessage{Usage: Usage{Cost: Cost{Total: math.NaN()}}}}},
		&AssistantMessage{Content: Contents{ToolCall{Arguments: json.RawMessage(`x`)}}},
	} {
		if _, err := marshalPlain(v); err == nil {
			t.Fatalf("%#v is encoded", v)
		}
		if got, err := appendValue(nil, v); err == nil {
			t.Errorf("%#v is appended: %s", v, got)
		}
	}
}

// A model request has the whole transcript: it is written and read in every turn of a model behind the bus.
func BenchmarkModelRequest(b *testing.B) {
	const turns = 10
	r := ModelRequest{Model: ModelRef{ID: "scripted"}}
	for range turns {
		r.Messages = append(r.Messages,
			&AssistantMessage{StopReason: StopToolUse, API: "scripted", Provider: "scripted", Model: "m", Timestamp: 1,
				Content: Contents{ToolCall{ID: "call_1", Name: "echo", Arguments: json.RawMessage(`{"v":"x"}`)}}},
			&ToolResultMessage{ToolCallID: "call_1", ToolName: "echo", Content: Contents{Text{Text: `{"v":"x"}` + "\n"}},
				Timestamp: 2})
	}
	payload, err := Marshal(r)
	if err != nil {
		b.Fatal(err)
	}
	b.Run("written", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := Marshal(r); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("read", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := DecodeModelRequest(payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkMessageEnd(b *testing.B) {
	end := &MessageEnd{MessageID: "m10", Message: AnyMessage{&AssistantMessage{StopReason: StopToolUse, API: "scripted",
		Content: Contents{ToolCall{ID: "call_1", Name: "echo", Arguments: json.RawMessage(`{"v":"x"}`)}}}}}
	b.Run("appended", func(b *testing.B) {
		b.ReportAllocs()
		var buf []byte
		for b.Loop() {
			buf, _ = appendValue(buf[:0], end)
		}
	})
	b.Run("encoded", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := marshalPlain(end); err != nil {
				b.Fatal(err)
			}
		}
	})
}
