package toolargs_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas/toolargs"
)

// FuzzValidate holds the promises of the package against any schema and any arguments: no panic, an end in time, valid
// JSON out, and what comes out passes unchanged where no union chooses.
func FuzzValidate(f *testing.F) {
	for _, c := range recorded(f) {
		f.Add([]byte(c.Parameters), []byte(c.Arguments))
	}
	f.Add([]byte(chain(30, 2, "oneOf")), []byte(`{"s":5}`))
	f.Add([]byte(`{"properties":{"s":{"pattern":"(?=(a+)+b)|^(?:(a)|b)*\\1$"}}}`),
		[]byte(`{"s":"`+strings.Repeat("a", 200)+`"}`))
	f.Add([]byte(`{"pattern":"(?<=(?<n>(x?a?){999})\\k<n>)","format":"regex"}`),
		[]byte(`"`+strings.Repeat("(a?){999}", 50)+`"`))
	f.Fuzz(func(t *testing.T, parameters, args []byte) {
		start := time.Now()
		checked := toolargs.Check(parameters)
		schema, err := toolargs.Compile(parameters)
		if err != nil {
			if checked == nil {
				t.Fatalf("does not compile, but passes the check: %v", err)
			}
			return
		}
		once, err := schema.Validate(t.Context(), "f", args)
		if took := time.Since(start); took > tooLong {
			t.Fatalf("took %v", took)
		}
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
		"larger": {`{"type":"object","properties":{"path":{"type":"string","minLength":1},"edits":{"type":"array","items":
			{"type":"object","properties":{"oldText":{"type":"string"},"newText":{"type":"string"},"all":{"type":"boolean"}},
			"required":["oldText","newText"]}},
			"limit":{"anyOf":[{"type":"integer","minimum":0},{"type":"null"}]}},"required":["path"]}`,
			`{"path":"a/b/c.go","limit":10,"edits":[` +
				strings.Repeat(`{"oldText":"func main() {\n\t","newText":"func run() {\n","all":true},`, 9) +
				`{"oldText":"x","newText":"y"}]}`},
	} {
		b.Run(name, func(b *testing.B) {
			schema := compile(b, bb.parameters)
			args := json.RawMessage(bb.args)
			b.ReportAllocs()
			b.SetBytes(int64(len(args)))
			for b.Loop() {
				if _, err := schema.Validate(b.Context(), "f", args); (err != nil) != (name == "refused") {
					b.Fatal(err)
				}
			}
		})
	}
}
