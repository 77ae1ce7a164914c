package schemas

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// seeds are the examples of a message and what its writers make of it.
func seeds(f *testing.F, dir string, written ...any) {
	files, err := filepath.Glob(filepath.Join("testdata", dir, "*.json"))
	if err != nil || len(files) == 0 {
		f.Fatalf("no examples in %s: %v", dir, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	for _, v := range written {
		data, err := marshalPlain(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
}

func plainResult() ToolAnswer {
	return ToolAnswer{"result/c7", ToolResponse{Call: "c7", ToolCallID: "t1", ToolName: "echo", Worker: "w",
		Result: ToolResult{Content: Contents{Text{Text: "a<b"}}, Details: json.RawMessage(`{"n":[1,{}]}`)}}}
}

func plainRequest() ToolRequest {
	return ToolRequest{Session: "s1", RunID: "r2", TurnID: "t3", Call: "c7", ToolCallID: "t1", ToolName: "echo",
		Arguments: json.RawMessage(`{"v":"x"}`), StartSeq: 7}
}

// FuzzCanonicalResult holds the short way against the schema: it must accept nothing that the schema refuses, and read
// what the long way reads.
func FuzzCanonicalResult(f *testing.F) {
	seeds(f, "commands/tool_result", plainResult())
	f.Fuzz(func(t *testing.T, payload []byte) {
		id, r, ok := canonicalResult(payload)
		if !ok {
			return
		}
		var want ToolAnswer
		if err := json.Unmarshal(payload, &want); err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		if d := cmp.Diff(want, ToolAnswer{id, *r}); d != "" {
			t.Errorf("%q (-want +got):\n%s", payload, d)
		}
		if err := validate("", SchemaName{"commands", "tool_result"}, payload); err != nil {
			t.Errorf("%q: %v", payload, err)
		}
	})
}

// FuzzCanonicalRequest does so for tool requests.
func FuzzCanonicalRequest(f *testing.F) {
	seeds(f, "tools/tool_request", plainRequest())
	f.Fuzz(func(t *testing.T, payload []byte) {
		r, ok := canonicalRequest(payload)
		if !ok {
			return
		}
		var want ToolRequest
		if err := json.Unmarshal(payload, &want); err != nil {
			t.Fatalf("%q: %v", payload, err)
		}
		if d := cmp.Diff(want, r); d != "" {
			t.Errorf("%q (-want +got):\n%s", payload, d)
		}
		if err := validate("", SchemaName{"tools", "tool_request"}, payload); err != nil {
			t.Errorf("%q: %v", payload, err)
		}
	})
}

func TestWhatWeWriteTakesTheShortWay(t *testing.T) {
	t.Parallel()
	full := plainRequest()
	full.Version, full.Workspace, full.Effect, full.TimeoutMs = "2", "w", EffectIdempotent, 5
	full.TraceParent, full.ReplyTo = "00-1-2-01", "agent.reply.x.c7"
	for _, request := range []ToolRequest{plainRequest(), full} {
		payload, err := marshalPlain(request)
		if err != nil {
			t.Fatal(err)
		}
		r, ok := canonicalRequest(payload)
		if d := cmp.Diff(request, r); !ok || d != "" {
			t.Errorf("request %s: %v (-want +got):\n%s", payload, ok, d)
		}
	}
	took := 1500 * time.Millisecond
	for _, answer := range []ToolAnswer{
		plainResult(), full.Answer("w", TextResult("\x1b[1mbold\x1b[0m \u2028 \"\\ <&> \u00e9\U0001F600"), false, took),
		full.Answer("w", ErrorResult("broken"), true, 0), full.Answer("w", ToolResult{Content: Contents{}}, false, took),
		full.Answer("w", ToolResult{Content: Contents{Text{Text: "a"}, Text{}}, Terminate: true}, false, took),
	} {
		payload, err := marshalPlain(answer)
		if err != nil {
			t.Fatal(err)
		}
		id, r, ok := canonicalResult(payload)
		if !ok {
			t.Errorf("result %s takes the long way", payload)
		} else if d := cmp.Diff(answer, ToolAnswer{id, *r}); d != "" {
			t.Errorf("result %s (-want +got):\n%s", payload, d)
		}
	}
}

// What is written otherwise takes the long way, wherever it is cut off or changed.
func TestWhatOthersWriteTakesTheLongWay(t *testing.T) {
	t.Parallel()
	cut := plainResult()
	cut.Result.Content = append(cut.Result.Content, Text{Text: "\\\"\n"})
	payload, err := marshalPlain(cut)
	if err != nil {
		t.Fatal(err)
	}
	for i := range payload {
		if _, _, ok := canonicalResult(payload[:i]); ok {
			t.Errorf("accepted %s", payload[:i])
		}
	}
	text := string(payload)
	with := func(old, changed string) string { return strings.Replace(text, old, changed, 1) }
	for _, other := range []string{
		text + " ", " " + text, with(`"call"`, `"Call"`), with(`"worker":"w"`, `"worker":""`),
		with(`"isError":false`, `"isError":false,"isError":true`),
		with(`"isError":false`, `"isError":0`), with(`,"isError":false`, ``),
		with(`"type":"text"`, `"type":"image"`), with(`{"n":[1,{}]}`, `{"n":1,"n":2}`),
		with(`{"n":[1,{}]}`, `{"n":[1,{}]`), with(`"c7"`, `"c07"`),
		with(`a<b`, "a\nb"), with(`a<b`, "a\xffb"),
		with(`"worker"`, `"extra":1,"worker"`), with(`:"echo"`, `: "echo"`),
	} {
		if other == text {
			t.Fatal("nothing is changed")
		}
		if _, _, ok := canonicalResult([]byte(other)); ok {
			t.Errorf("accepted %q", other)
		}
	}
}

func BenchmarkToolResult(b *testing.B) {
	payload, err := marshalPlain(plainResult())
	if err != nil {
		b.Fatal(err)
	}
	b.Run("canonical", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			canonicalResult(payload)
		}
	})
	b.Run("schema", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if err := validate("", SchemaName{"commands", "tool_result"}, payload); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// What is simple is strict, whatever it is, and arguments of most calls are simple.
func TestSimpleIsStrict(t *testing.T) {
	t.Parallel()
	const others = `0"{},:x \-1en[]` + "\x00\xff"
	r := rand.New(rand.NewPCG(7, 8))
	for _, text := range []string{`{}`, `{"v":"x"}`, `{"path":"a b","limit":10,"all":true,"none":null,"zero":0}`} {
		if !simple([]byte(text)) {
			t.Errorf("%s is not simple", text)
		}
		for range 20_000 {
			raw := []byte(text)
			for range 1 + r.IntN(3) {
				raw[r.IntN(len(raw))] = others[r.IntN(len(others))]
			}
			if _, err := decodeStrict(raw); simple(raw) && err != nil {
				t.Fatalf("%q: %v", raw, err)
			}
		}
	}
	for _, text := range []string{`{"a":1,"a":2}`, `{"a":"\xff"}`, `{"a":01}`, `{"a":1}x`, `{"a":1e999}`, `{"a"}`, `{,}`, ``} {
		if simple([]byte(text)) {
			t.Errorf("%q is simple", text)
		}
	}
}
