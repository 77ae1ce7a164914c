package agui

import (
	"encoding/json"
	"strings"
	"testing"
)

// The user messages after what the log has, and after the last reply, may be new. Their ids depend on nothing that
// changes from request to request.
func TestTail(t *testing.T) {
	t.Parallel()
	for messages, want := range map[string]string{
		`u1`:                   "u1",
		`m2 u1`:                "u1",
		`u1 a1 u2 t1 u3`:       "u2 u3",
		`m2 m7 t1 u2`:          "u2",
		`m2 m7 u2 t1`:          "u2",
		`u1 a1`:                "",
		`s1 u1 s2`:             "u1",
		`m2 m7 t1 blank u2`:    "u2",
		`m2 u1 m9 t1 a2 t2 u3`: "u3",
	} {
		in := runInput{RunID: "r1"}
		roles := map[byte]string{'u': "user", 'm': "user", 'a': "assistant", 't': "tool", 's': "system", 'b': "user"}
		for id := range strings.FieldsSeq(messages) {
			content, _ := json.Marshal(strings.TrimPrefix("the text of "+id, "the text of blank"))
			in.Messages = append(in.Messages, inputMessage{ID: id, Role: roles[id[0]], Content: content})
		}
		tail, err := in.tail(func(id string) bool { return id[0] == 'm' })
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, m := range tail {
			got = append(got, strings.TrimPrefix(m.message.Content.JoinText(), "the text of "))
		}
		if strings.Join(got, " ") != want {
			t.Errorf("of %s: %q, want %q", messages, got, want)
		}
	}
}

func TestIDsOfPrompts(t *testing.T) {
	t.Parallel()
	ids := map[string]string{}
	for name, c := range map[string]struct{ run, message, content string }{
		"a message": {"r1", "u1", `"x"`}, "another text": {"r1", "u1", `"y"`}, "another id": {"r1", "u2", `"x"`},
		"no id": {"r1", "", `"x"`}, "no id, another run": {"r2", "", `"x"`}, "the id of a run": {"r1", "r1", `"x"`},
	} {
		id := func(run, content string) string {
			in := runInput{RunID: run, Messages: []inputMessage{{c.message, "user", json.RawMessage(content), "", ""}}}
			tail, err := in.tail(func(string) bool { return false })
			if err != nil || len(tail) != 1 {
				t.Fatal(tail, err)
			}
			return tail[0].command
		}
		first := id(c.run, c.content)
		if again := id(c.run, `[{"type":"text","text":`+c.content+`}]`); again != first {
			t.Errorf("%s has the ids %s and %s", name, first, again)
		}
		if other := id("r3", c.content); (other == first) != (c.message != "") {
			t.Errorf("%s has the id %s, and %s in another run", name, first, other)
		}
		if before := ids[first]; before != "" {
			t.Errorf("%s has the id of %s", name, before)
		}
		ids[first] = name
	}
}
