package toolargs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// Steps come from whoever announces a tool, arguments from a model: together they must not keep a runner busy.
func TestRewritingIsBounded(t *testing.T) {
	t.Parallel()
	absent := make([]string, 64)
	for i := range absent {
		absent[i] = fmt.Sprintf("absent%d", i)
	}
	for budget, want := range map[int]bool{64: false, 1000: true} {
		v, err := parseJSON([]byte(`{"list":[{"a":1,"b":2},{"a":1,"b":2}],"from":1}`))
		if err != nil {
			t.Fatal(err)
		}
		r := rewriter{left: budget}
		r.rewrite(schemas.ArgumentRewrite{Op: schemas.RewriteRename, From: absent, To: "x", In: "list"}, &v)
		if got := r.rewrite(schemas.RenameArgument("to", "from"), &v); got != want {
			t.Errorf("with a budget of %d the last step is applied: %t", budget, got)
		}
	}
}

// Values behind escaped characters, in a text that a rewrite parses, take as much as others.
func TestEscapedValuesHaveRoom(t *testing.T) {
	t.Parallel()
	plain := roomOf([]byte(`{"a":"[` + strings.Repeat("0,", 1000) + `0]"}`))
	escaped := roomOf([]byte(`{"a":"[` + strings.Repeat(`0\u002c`, 1000) + `0]"}`))
	if escaped < plain {
		t.Errorf("%d bytes, %d with escapes", plain, escaped)
	}
}

// Deeply nested values have room for the stack that a walk along rows of references takes.
func TestNestedValuesHaveRoom(t *testing.T) {
	t.Parallel()
	nested := func(levels int) int64 {
		return roomOf([]byte(strings.Repeat("[", levels) + strings.Repeat("]", levels)))
	}
	if few, many := nested(flat), nested(990); few > small || many < 16<<20 || many > largeRoom/4 {
		t.Errorf("%d bytes for %d levels, %d for 990", few, flat, many)
	}
}
