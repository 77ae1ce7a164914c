package partialjson_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers/internal/partialjson"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		``: `{}`, "\n ": `{}`, `{`: `{}`, `{"a":1}`: `{"a":1}`, `{"z": 1, "a": 2}`: `{"z":1,"a":2}`, `{"a":12`: `{"a":12}`,
		`{"a":"x`: `{"a":"x"}`, `{"a":"x\`: `{"a":"x"}`, `{"a":"x\\`: `{"a":"x\\"}`, `{"a":"x\u0`: `{"a":"x"}`,
		`{"a":"\ud83d`: `{"a":"\ud83d"}`,
		`{"a":1.`:      `{}`, `{"a":-`: `{}`, `{"a":1.5e`: `{"a":1.5}`, `{"a":1.5E+`: `{"a":1.5}`, `{"a":t`: `{"a":true}`,
		`{"a":[1,"b`: `{"a":[1,"b"]}`,
		`{"a":NaN`:   `{"a":null}`, `{"a":-Inf`: `{"a":null}`, `{"a":{"b":[{"c":nul`: `{"a":{"b":[{"c":null}]}}`,
		`{"b":1,"a":oops,"c":2}`: `{"b":1}`, `{"a":{"b":1,"c":?`: `{"a":{"b":1}}`, `[1,2`: `[1,2]`, `["a" "b"`: `["a","b"]`,
		`?`: `{}`, `{"a":"` + "tab\t": `{}`,
		`{"a":"x","b":"` + "\x01" + `\d"}`: `{"a":"x","b":"\u0001\\d"}`,
	} {
		if got, _ := partialjson.Parse(in); string(got) != want {
			t.Errorf("%s: %s, want %s", in, got, want)
		}
	}
}

// What was cut off, or has a mistake, is not whole, however plausible it looks.
func TestWhole(t *testing.T) {
	for in, want := range map[string]bool{"": true, " {} ": true, `{"a":1}`: true, "{\"a\":\"tab\t\\d\"}": true,
		`{"a":"rm -rf precious`: false, `{"a":1`: false, `{"a":1}}`: false, `{"a":"say "hello""}`: false,
		`{"a":"b" + "c"}`: false, `?`: false, `{"a":NaN}`: false,
	} {
		if _, whole := partialjson.Parse(in); whole != want {
			t.Errorf("%s: whole is %v", in, whole)
		}
	}
}

// TestParseOfPrefixesGrows checks that every prefix of a text becomes valid JSON, and that a longer prefix does not
// become shorter JSON, but for a literal that is completed.
func TestParseOfPrefixesGrows(t *testing.T) {
	const text = `{"path":"/a/\u00e9\"x","n":[1,-2.5e3,{"deep":[true,null]}],"content":"line\nline 🙈","last":false}`
	size := 0
	for i := range text {
		got, whole := partialjson.Parse(text[:i])
		if whole != (i == 0) {
			t.Fatalf("%s: whole is %v", text[:i], whole)
		}
		if !json.Valid(got) {
			t.Fatalf("%s: %s", text[:i], got)
		}
		if len(got) < size-len("false") {
			t.Fatalf("%s: %s is shorter than before", text[:i], got)
		}
		size = len(got)
	}
	if got, whole := partialjson.Parse(text); string(got) != text || !whole {
		t.Errorf("%s, want it as it was", got)
	}
}

func TestDeepNestingIsBounded(t *testing.T) {
	for _, open := range []string{"[", `{"a":`} {
		if got, whole := partialjson.Parse(strings.Repeat(open, 200_000)); !json.Valid(got) || whole {
			t.Errorf("%s nested: not JSON", open)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, seed := range []string{`{"a":"x\u00`, `{"a":[1,{"b":-1.5e`, `{"a" 1}`, `"\`, "{\"a\":\"\n\\q", `[1,]`, `NaN`,
		`{"a":1}}`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, _ := partialjson.Parse(in)
		if !json.Valid(got) {
			t.Fatalf("%q became %q", in, got)
		}
		if again, whole := partialjson.Parse(string(got)); string(again) != string(got) || !whole {
			t.Fatalf("%q became %q, then %q", in, got, again)
		}
	})
}
