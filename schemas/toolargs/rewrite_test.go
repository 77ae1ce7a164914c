package toolargs_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
)

func TestRewrite(t *testing.T) {
	var (
		path   = schemas.RenameArgument("path", "file_path", "file")
		inner  = schemas.ArgumentRewrite{Op: schemas.RewriteRename, From: []string{"old"}, To: "oldText", In: "edits"}
		parse  = schemas.ArgumentRewrite{Op: schemas.RewriteParse, To: "edits"}
		gather = schemas.ArgumentRewrite{Op: schemas.RewriteGather, From: []string{"a", "b"}, To: "edits"}
	)
	for _, c := range []struct {
		name  string
		steps []schemas.ArgumentRewrite
		args  string
		want  string
	}{
		{"no steps", nil, `{"file_path":"x"}`, `{"file_path":"x"}`},
		{"nothing applies: the same bytes", []schemas.ArgumentRewrite{path, inner, parse, gather}, `{ "z": 1.50 }`,
			`{ "z": 1.50 }`},
		{"renamed in its place, the rest as it was", []schemas.ArgumentRewrite{path}, `{"a":1.50,"file_path":"x","b":null}`,
			`{"a":1.50,"path":"x","b":null}`},
		{"the first name wins", []schemas.ArgumentRewrite{path}, `{"file":"2","file_path":"1"}`, `{"file":"2","path":"1"}`},
		{"the right name wins", []schemas.ArgumentRewrite{path}, `{"file_path":"1","path":"2"}`,
			`{"file_path":"1","path":"2"}`},
		{"in the objects of an array", []schemas.ArgumentRewrite{inner},
			`{"edits":[{"old":"1"},7,{"oldText":"2","old":"3"}]}`,
			`{"edits":[{"oldText":"1"},7,{"oldText":"2","old":"3"}]}`},
		{"in what is no array", []schemas.ArgumentRewrite{inner}, `{"edits":{"old":"1"}}`, `{"edits":{"old":"1"}}`},
		{"a text of JSON", []schemas.ArgumentRewrite{parse}, `{"edits":"[{\"old\":1}]"}`, `{"edits":[{"old":1}]}`},
		{"a text of JSON that is a scalar", []schemas.ArgumentRewrite{parse}, `{"edits":"12"}`, `{"edits":"12"}`},
		{"a text that is no JSON", []schemas.ArgumentRewrite{parse}, `{"edits":"[oops"}`, `{"edits":"[oops"}`},
		{"steps follow each other", []schemas.ArgumentRewrite{parse, inner}, `{"edits":"[{\"old\":\"1\"}]"}`,
			`{"edits":[{"oldText":"1"}]}`},
		{"gathered into a new array", []schemas.ArgumentRewrite{gather}, `{"b":"2","x":0,"a":"1"}`,
			`{"x":0,"edits":[{"a":"1","b":"2"}]}`},
		{"gathered after what is there", []schemas.ArgumentRewrite{gather}, `{"edits":[1],"a":"1","b":"2"}`,
			`{"edits":[1,{"a":"1","b":"2"}]}`},
		{"gathered in place of what is no array", []schemas.ArgumentRewrite{gather}, `{"edits":null,"a":"1","b":"2"}`,
			`{"edits":[{"a":"1","b":"2"}]}`},
		{"not gathered unless all are there", []schemas.ArgumentRewrite{gather}, `{"a":"1"}`, `{"a":"1"}`},
		{"not gathered unless all are strings", []schemas.ArgumentRewrite{gather}, `{"a":"1","b":2}`, `{"a":"1","b":2}`},
		{"an unknown operation", []schemas.ArgumentRewrite{{Op: "turn", To: "a"}}, `{"a":1}`, `{"a":1}`},
		{"not gathered twice", []schemas.ArgumentRewrite{{Op: schemas.RewriteGather, From: []string{"a", "a"}, To: "edits"}},
			`{"a":"1"}`, `{"a":"1"}`},
		{"no object", []schemas.ArgumentRewrite{path, gather}, `["a"]`, `["a"]`},
		{"no JSON", []schemas.ArgumentRewrite{path}, `{"file_path`, `{"file_path`},
		{"nothing", []schemas.ArgumentRewrite{path}, ``, ``},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := json.RawMessage(c.args)
			if got := toolargs.Rewrite(t.Context(), c.steps, args); string(got) != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
			if string(args) != c.args {
				t.Errorf("the input became %s", args)
			}
		})
	}
}

// Steps come from whoever announces a tool. A text that is no JSON is not parsed by each of them, and those that are
// have as many values together as arguments may.
func TestRewritesTakeBoundedTime(t *testing.T) {
	t.Parallel()
	parse := schemas.ArgumentRewrite{Op: schemas.RewriteParse, To: "a"}
	for what, text := range map[string]string{
		"many values": strings.Repeat("1,", 250_000), "a long value": `\"` + strings.Repeat(`\\n`, 1<<20),
	} {
		args := json.RawMessage(`{"a":"[` + text + `"}`)
		took := func(times int) time.Duration {
			began := time.Now()
			got := toolargs.Rewrite(t.Context(), slices.Repeat([]schemas.ArgumentRewrite{parse}, times), args)
			if string(got) != string(args) {
				t.Errorf("%s: a text that is no JSON became %.100s", what, got)
			}
			return time.Since(began)
		}
		if once, often := took(1), took(64); often > 10*once {
			t.Errorf("%s: 64 steps take %s, one %s", what, often, once)
		}
	}
	list := strings.Repeat("1,", 200_000) + "1"
	both := []schemas.ArgumentRewrite{parse, {Op: schemas.RewriteParse, To: "b"}}
	got := toolargs.Rewrite(t.Context(), both, json.RawMessage(`{"a":"[`+list+`]","b":"[`+list+`]"}`))
	if want := `{"a":[` + list + `],"b":"[` + list + `]"}`; string(got) != want {
		t.Errorf("texts with many values became %.20s … %.20s", got, got[len(got)-20:])
	}
}
