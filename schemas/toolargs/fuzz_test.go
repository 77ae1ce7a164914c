package toolargs_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas/toolargs"
)

// FuzzValidate holds the promises of the package against any schema and any arguments: no panic, valid JSON out, and
// what comes out passes unchanged where no union chooses.
func FuzzValidate(f *testing.F) {
	for _, c := range recorded(f) {
		f.Add([]byte(c.Parameters), []byte(c.Arguments))
	}
	f.Fuzz(func(t *testing.T, parameters, args []byte) {
		schema, err := toolargs.Compile(parameters)
		if err != nil {
			return
		}
		once, err := schema.Validate("f", args)
		if err != nil {
			if !strings.HasPrefix(err.Error(), `Validation failed for tool "f":`) {
				t.Fatalf("unexpected error %q", err)
			}
			return
		}
		if !json.Valid(once) {
			t.Fatalf("returned %q", once)
		}
		if hasUnion(parameters) {
			return
		}
		checkStays(t, "fuzz", schema, once)
	})
}

func BenchmarkValidate(b *testing.B) {
	const simple = `{"type":"object","properties":{"v":{"type":"string"}},"required":["v"],"additionalProperties":false}`
	for name, bb := range map[string]struct{ parameters, args string }{
		"simple":  {simple, `{"v":"x"}`},
		"coerced": {simple, `{"v":5}`},
		"refused": {simple, `{"w":"x"}`},
		"larger": {`{"type":"object","properties":{"path":{"type":"string","minLength":1},"edits":{"type":"array","items":{"type":"object",
			"properties":{"oldText":{"type":"string"},"newText":{"type":"string"},"all":{"type":"boolean"}},"required":["oldText","newText"]}},
			"limit":{"anyOf":[{"type":"integer","minimum":0},{"type":"null"}]}},"required":["path"]}`,
			`{"path":"a/b/c.go","limit":10,"edits":[` + strings.Repeat(`{"oldText":"func main() {\n\t","newText":"func run() {\n","all":true},`, 9) +
				`{"oldText":"x","newText":"y"}]}`},
	} {
		b.Run(name, func(b *testing.B) {
			schema := compile(b, bb.parameters)
			args := json.RawMessage(bb.args)
			b.ReportAllocs()
			b.SetBytes(int64(len(args)))
			for b.Loop() {
				if _, err := schema.Validate("f", args); (err != nil) != (name == "refused") {
					b.Fatal(err)
				}
			}
		})
	}
}
