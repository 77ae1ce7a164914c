//go:build unix

package anylanguage_test

import (
	"os/exec"
	"testing"
)

// says runs a program in JavaScript that needs no server, and compares what it says.
func says(t *testing.T, script, want string) {
	t.Helper()
	needs(t, "install Node.js 18 or later", program("node"))
	out, err := exec.CommandContext(t.Context(), "node", "testdata/"+script).CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%s says\n%s%v, want\n%s", script, out, err, want)
	}
}

// In the console a call that is executed is one of the reply that counts, and not of a withdrawn one with its id, whose
// tool may be another.
func TestCallsOfWithdrawnRepliesAreNotExecuted(t *testing.T) {
	t.Parallel()
	const calls = `: read asked {"of":"read"}, bash done {"of":"bash"}
`
	says(t, "fold.mjs", "retried"+calls+"another model"+calls+"compacted"+calls+"interrupted"+calls)
}

// Whoever executes tools may publish updates of a reply without an end. The client yields 32 Mi characters of them, of
// which each costs 64 and each of its parts 64 besides, and then what the log has.
func TestUpdatesWithoutAnEndInJavaScript(t *testing.T) {
	t.Parallel()
	says(t, "bounded.mjs", `large: 3 of 5, then message_end
small: 260111 of 300000, then message_end
`)
}

// For the console, too, what a server has answered in the bucket of profiles is no part of it.
func TestAnswersAreNoProfilesInJavaScript(t *testing.T) {
	t.Parallel()
	says(t, "profiles.mjs", "broken: cannot be read\ncoder: new\n")
}
