package schemas

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
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

// FuzzCanonicalResult holds the short way against the schema: it must accept nothing that the schema refuses.
func FuzzCanonicalResult(f *testing.F) {
	seeds(f, "commands/tool_result", plainResult())
	f.Fuzz(func(t *testing.T, payload []byte) {
		if _, _, ok := canonicalResult(payload); !ok {
			return
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
		if !canonicalRequest(payload) {
			return
		}
		if err := validate("", SchemaName{"tools", "tool_request"}, payload); err != nil {
			t.Errorf("%q: %v", payload, err)
		}
	})
}

func TestWhatWeWriteTakesTheShortWay(t *testing.T) {
	result, err := marshalPlain(plainResult())
	if err != nil {
		t.Fatal(err)
	}
	if id, r, ok := canonicalResult(result); !ok || id != "result/c7" || r.Call != "c7" {
		t.Errorf("result %s: %q %v %v", result, id, r, ok)
	}
	request, err := marshalPlain(plainRequest())
	if err != nil {
		t.Fatal(err)
	}
	if !canonicalRequest(request) {
		t.Errorf("request %s", request)
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
