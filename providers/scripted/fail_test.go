package scripted_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// TestTheFirstAttemptsFail retries as a run does: with the same transcript and the number of the attempt.
func TestTheFirstAttemptsFail(t *testing.T) {
	model, err := scripted.Parse([]byte(`[{"fail":["529 overloaded","timeout"],"text":"at last"}]`))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for attempt := range 3 {
		for e := range model.Stream(t.Context(), schemas.ModelRequest{Attempt: attempt}) {
			if e.Terminal() {
				got = append(got, e.Message.ErrorMessage+e.Message.Content.JoinText())
			}
		}
	}
	if d := cmp.Diff([]string{"529 overloaded", "timeout", "at last"}, got); d != "" {
		t.Errorf("attempts (-want +got):\n%s", d)
	}
}
