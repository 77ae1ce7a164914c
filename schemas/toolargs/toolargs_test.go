package toolargs_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas/toolargs"
)

// call is one line of testdata: what @earendil-works/pi-ai 0.74.2 (typebox 1.4.3) answered. rules.jsonl has a few calls
// for every rule, random.jsonl calls with generated schemas and arguments.
type call struct {
	Name       string          `json:"name"`
	Parameters json.RawMessage `json:"parameters"`
	Arguments  json.RawMessage `json:"arguments"`
	Want       json.RawMessage `json:"want"`
	Error      string          `json:"error"`
}

func recorded(t testing.TB) []call {
	t.Helper()
	var calls []call
	for _, file := range []string{"testdata/rules.jsonl", "testdata/random.jsonl"} {
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var c call
			if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			calls = append(calls, c)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(calls) < 300 {
		t.Fatalf("only %d recorded calls", len(calls))
	}
	return calls
}

func TestAnswersAsRecorded(t *testing.T) {
	for _, c := range recorded(t) {
		t.Run(c.Name, func(t *testing.T) {
			schema, err := toolargs.Compile(c.Parameters)
			if err != nil {
				t.Fatal(err)
			}
			got, err := schema.Validate(t.Context(), "f", c.Arguments)
			if c.Error != "" {
				if err == nil {
					t.Fatalf("accepted as %s, want error\n%s", got, c.Error)
				}
				if d := cmp.Diff(c.Error, err.Error()); d != "" {
					t.Errorf("error (-want +got):\n%s", d)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(decode(t, c.Want), decode(t, got)); d != "" {
				t.Errorf("arguments (-want +got):\n%s", d)
			}
		})
	}
}

// What Validate returns is valid as it is, except where a union prefers another member the second time.
func TestValidatedArgumentsStay(t *testing.T) {
	for _, c := range recorded(t) {
		if hasUnion(c.Parameters) {
			continue
		}
		schema, err := toolargs.Compile(c.Parameters)
		if err != nil {
			t.Fatal(err)
		}
		once, err := schema.Validate(t.Context(), "f", c.Arguments)
		if err != nil {
			continue
		}
		checkStays(t, c.Name, schema, once)
	}
}

func hasUnion(parameters json.RawMessage) bool {
	var v any
	_ = json.Unmarshal(parameters, &v) // compiled already
	plain, _ := json.Marshal(v)        // without escapes in the names of keywords
	return bytes.Contains(plain, []byte(`"anyOf"`)) || bytes.Contains(plain, []byte(`"oneOf"`))
}

func checkStays(t *testing.T, name string, schema *toolargs.Schema, once json.RawMessage) {
	t.Helper()
	twice, err := schema.Validate(t.Context(), "f", once)
	if err != nil {
		t.Errorf("%s: %s is refused the second time: %v", name, once, err)
	} else if !bytes.Equal(once, twice) {
		t.Errorf("%s: %s became %s the second time", name, once, twice)
	}
}

func TestUntouchedArgumentsAreTheSameBytes(t *testing.T) {
	schema := compile(t, `{"type":"object","properties":{"n":{"type":"number"},"i":{"type":"integer"}}}`)
	args := json.RawMessage(" {\"n\": 1.50,\t\"i\":12345678901234567890, \"x\":[1e0]}\n")
	got, err := schema.Validate(t.Context(), "f", args)
	if err != nil {
		t.Fatal(err)
	}
	if &got[0] != &args[0] || len(got) != len(args) {
		t.Errorf("got %s", got)
	}
}

func TestCoercionKeepsOrderAndLiterals(t *testing.T) {
	schema := compile(t, `{"type":"object","properties":{"a":{"type":"integer"},"i":{"type":"integer"}}}`)
	got, err := schema.Validate(t.Context(), "f",
		json.RawMessage(`{"z":"<é>\n","n":1.50,"a":"7","big":12345678901234567890,"i":5.0}`))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"z":"<é>\n","n":1.50,"a":7,"big":12345678901234567890,"i":5}`
	if string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestNoParametersAndNoArguments(t *testing.T) {
	schema := compile(t, "")
	if got, err := schema.Validate(t.Context(), "f", nil); err != nil || string(got) != "{}" {
		t.Errorf("no arguments: %s, %v", got, err)
	}
	if _, err := schema.Validate(t.Context(), "f", json.RawMessage(`[]`)); err == nil {
		t.Error("a list is accepted as an object")
	}
}

func TestCompileRefuses(t *testing.T) {
	for name, tt := range map[string]struct{ parameters, want string }{
		"not JSON":          {`{"type":`, "not JSON"},
		"two values":        {`{} {}`, "more than one"},
		"no schema":         {`"string"`, "neither an object nor a boolean"},
		"broken pattern":    {`{"properties":{"a":{"pattern":"("}}}`, `pattern "("`},
		"no such group":     {`{"pattern":"(a)\\2"}`, "unrecognized escape sequence \\2"},
		"no such name":      {`{"pattern":"(?<a>a)\\k<b>"}`, "undefined group name b"},
		"broken lookahead":  {`{"pattern":"(?=a"}`, "missing closing )"},
		"broken quantifier": {`{"pattern":"(?=a)b{2,1}"}`, "repeat count"},
		"groups in groups": {`{"pattern":"(?=a)` + strings.Repeat("(", 1300) + strings.Repeat(")*", 1300) + `"}`,
			"groups in groups"},
		"broken name":        {`{"patternProperties":{"[":{}}}`, `pattern "["`},
		"nested without end": {strings.Repeat(`{"not":`, 2000) + "{}" + strings.Repeat("}", 2000), "nested deeper"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := toolargs.Compile(json.RawMessage(tt.parameters))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
		})
	}
}

func TestBrokenArgumentsAreAnError(t *testing.T) {
	schema := compile(t, `{"type":"object"}`)
	_, err := schema.Validate(t.Context(), "f", json.RawMessage(`{"a":}`))
	want := "Validation failed for tool \"f\":\n  - root: must be JSON: offset 5: unexpected '}'\n\nReceived " +
		"arguments:\n{\"a\":}"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	for _, args := range []string{`{`, `{"a":}`, `{"a":1}x`, `{'a':1}`, "{\"a\":\"\x01\"}", `{"a":01}`, `{"a":1.}`, `nul`,
		strings.Repeat("[", 5000)} {
		if got, err := schema.Validate(t.Context(), "f", json.RawMessage(args)); err == nil {
			t.Errorf("%.20q: accepted as %s", args, got)
		}
	}
}

// A schema may refer to itself without consuming anything of the value; that must end.
func TestEndlessSchemaEnds(t *testing.T) {
	for _, parameters := range []string{
		`{"$ref":"#"}`,
		`{"anyOf":[{"$ref":"#"},{"$ref":"#"}]}`,
		`{"not":{"$ref":"#"}}`,
		`{"not":{"not":{"$ref":"#"}}}`,
		`{"if":{"$ref":"#"}}`,
		`{"type":"object","properties":{"a":{"anyOf":[{"allOf":[{"$ref":"#"},{"$ref":"#"}]}]}},"if":{"$ref":"#"}}`,
	} {
		schema := compile(t, parameters)
		if got, err := schema.Validate(t.Context(), "f", json.RawMessage(`{"a":1}`)); err == nil {
			t.Errorf("%s: accepted as %s", parameters, got)
		}
	}
}

func TestEndlessUnionMemberDoesNotFit(t *testing.T) {
	schema := compile(t, `{"properties":{"a":{"anyOf":[{"if":{"$ref":"#"},"type":"integer"},{"type":"string"}]}},`+
		`"type":"object"}`)
	if got, err := schema.Validate(t.Context(), "f", json.RawMessage(`{"a":"5"}`)); err != nil ||
		string(got) != `{"a":"5"}` {
		t.Errorf("got %s, %v", got, err)
	}
}

// Patterns that JavaScript would try for ever end here as no match, or as an error that says so.
func TestHopelessPatternsEnd(t *testing.T) {
	args := json.RawMessage(`{"s":"` + strings.Repeat("a", 6000) + `"}`)
	for _, pattern := range []string{`^(?=a)(a*)*b$`, `(?=a)(a|a)*b`, `^(?:(?=a)a)*b$`, `(?=a)a*a*a*a*a*b`,
		`^(?!(a*)*b)`} {
		t.Run(pattern, func(t *testing.T) {
			t.Parallel()
			schema := compileQuick(t, `{"properties":{"s":{"pattern":"`+pattern+`"}}}`)
			if _, err := schema.Validate(t.Context(), "f", args); err == nil {
				t.Errorf("%s matches", pattern)
			}
		})
	}
}

func TestLongTextsAreMatched(t *testing.T) {
	schema := compile(t, `{"properties":{"s":{"pattern":"^(?!.*secret)[^]{3000,}$"}}}`)
	long := strings.Repeat("word ", 400_000/slowdown)
	for text, fits := range map[string]bool{
		long:            true,
		long + "secret": false,
	} {
		if _, err := schema.Validate(t.Context(), "f", json.RawMessage(`{"s":"`+text+`"}`)); (err == nil) != fits {
			t.Errorf("%d characters: accepted %t, want %t", len(text), err == nil, fits)
		}
	}
}

func TestSchemaIsSafeForConcurrentUse(t *testing.T) {
	schema := compile(t, `{"type":"object","properties":{"i":{"anyOf":[{"type":"integer"},{"pattern":"^x"}]}},`+
		`"required":["i"]}`)
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				if got, err := schema.Validate(t.Context(), "f", json.RawMessage(`{"i":"5"}`)); err != nil ||
					string(got) != `{"i":5}` {
					t.Errorf("got %s, %v", got, err)
				}
				if _, err := schema.Validate(t.Context(), "f", json.RawMessage(`{}`)); err == nil {
					t.Error("accepted {}")
				}
			}
		})
	}
	wg.Wait()
}

func compile(t testing.TB, parameters string) *toolargs.Schema {
	t.Helper()
	schema, err := toolargs.Compile(json.RawMessage(parameters))
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func decode(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	return v
}
