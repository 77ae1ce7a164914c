package view_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/runner/internal/view"
	"github.com/loopbus/loopbus/schemas"
)

// shown is a request as it was shown, which its digest says.
func shown(call schemas.CallKey) schemas.ApprovalRequested {
	return schemas.ApprovalRequested{Call: call, ToolName: "bash", Digest: "digest of " + string(call)}
}

// An answer is for the call that the person who gives it has been asked about, and for no other one.
func TestAnswersAreForWhatWasAsked(t *testing.T) {
	t.Parallel()
	take := func(a *view.Answers, words, call, reason string) {
		t.Helper()
		got, why, err := a.Take(words)
		want := schemas.ApprovalRequested{}
		if call != "" {
			want = shown(schemas.CallKey(call))
		}
		if !cmp.Equal(got, want) || why != reason || (err != nil) != (call == "") {
			t.Errorf("%q is for %+v with %q (%v), want %q with %q", words, got, why, err, call, reason)
		}
	}
	add := func(a *view.Answers, call schemas.CallKey, want string) {
		t.Helper()
		if got := a.Add(shown(call), "y", "n"); got != want {
			t.Errorf("%s is asked with %q, want %q", call, got, want)
		}
	}
	one := new(view.Answers)
	take(one, "", "", "")
	add(one, "c1", "y, or n and a reason")
	take(one, "looks good", "c1", "looks good")
	one.Remove("c1")
	add(one, "c2", "y, or n and a reason")
	take(one, "c2 fine", "c2", "fine")

	two := new(view.Answers) // the second was asked last, the first waits longest
	add(two, "c1", "y, or n and a reason")
	add(two, "c2", "y c2, or n c2 and a reason")
	take(two, "", "", "")
	take(two, "c2", "c2", "")
	two.Remove("c2")
	take(two, "", "", "")
	take(two, "c1", "c1", "")

	late := new(view.Answers) // somebody else, or time, has answered the first
	add(late, "c1", "y, or n and a reason")
	late.Remove("c1")
	add(late, "c2", "y c2, or n c2 and a reason")
	take(late, "", "", "")
	take(late, "c1", "", "")
	take(late, "c2", "c2", "")

	over := new(view.Answers)
	add(over, "c1", "y, or n and a reason")
	over.Clear()
	if over.Any() {
		t.Error("a call waits after its run")
	}
	add(over, "c2", "y c2, or n c2 and a reason")
	over.Clear()
	over.Typed()
	add(over, "c3", "y, or n and a reason")
}
