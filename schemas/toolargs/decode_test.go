package toolargs_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas/toolargs"
)

type inner struct {
	X int `json:"x"`
	Y int `json:"y"`
}

type Base struct {
	Command string `json:"command"`
}

type decoded struct {
	Base
	Plain  string
	One    inner            `json:"one"`
	Many   []inner          `json:"many"`
	Named  map[string]inner `json:"named"`
	Next   *decoded         `json:"next"`
	At     time.Time        `json:"at"`
	Raw    json.RawMessage  `json:"raw"`
	Any    any              `json:"any"`
	Hidden string           `json:"-"`
}

// What a check, a service or a person has not seen as a member is none: Go's own decoder takes members in any case, and
// merges what is there twice.
func TestDecodeTakesWhatWasChecked(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, args string
		want       decoded
	}{
		{"another case behind", `{"command":"ls","Command":"rm"}`, decoded{Base: Base{Command: "ls"}}},
		{"another case before", `{"COMMAND":"rm","command":"ls"}`, decoded{Base: Base{Command: "ls"}}},
		{"another case alone", `{"Command":"rm","plain":"x","Hidden":"y","hidden":"z"}`, decoded{}},
		{"a letter that folds", `{"Plain":"a","\u0050lain":"b","one":{"x":1},"\u006fne":{"y":2},"One":{"x":3}}`,
			decoded{Plain: "b", One: inner{Y: 2}}},
		{"nothing is merged", `{"many":[{"x":1,"y":2}],"many":[{"y":3}]}`, decoded{Many: []inner{{Y: 3}}}},
		{"below", `{"many":[{"x":1,"X":2}],"named":{"A":{"x":1,"X":2},"a":{"Y":1}},"next":{"command":"a","cOmmand":"b"}}`,
			decoded{Many: []inner{{X: 1}}, Named: map[string]inner{"A": {X: 1}, "a": {}},
				Next: &decoded{Base: Base{Command: "a"}}}},
		{"what reads itself", `{"at":"2026-01-02T03:04:05Z","raw":{"X":1e0,"x":12345678901234567890},"any":{"A":1,"a":2}}`,
			decoded{At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Raw: json.RawMessage(`{"X":1e0,"x":12345678901234567890}`),
				Any: map[string]any{"A": 1.0, "a": 2.0}}},
	} {
		var got decoded
		if err := toolargs.Decode(json.RawMessage(c.args), &got); err != nil {
			t.Errorf("%s: %v", c.name, err)
		} else if d := cmp.Diff(c.want, got); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
	}
	for _, broken := range []string{"", "{", `{"one":1}`, "{}{}"} {
		if err := toolargs.Decode(json.RawMessage(broken), new(decoded)); err == nil {
			t.Errorf("%q is taken", broken)
		}
	}
}

// A repeated member is checked as its last value, so that is what services, people and tools get, too.
func TestRepeatedMembersAreSettled(t *testing.T) {
	t.Parallel()
	schema := compile(t, `{"type":"object","properties":{"v":{"type":"object"}}}`)
	got, err := schema.Validate(t.Context(), "f", json.RawMessage(`{"v":{"a":1,"b":2,"a":3},"w":1,"v":{"a":4,"a":5}}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"v":{"a":5},"w":1}`; string(got) != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
