//go:build unix

package anylanguage_test

import (
	"os/exec"
	"testing"
)

// For the console, too, what a server has answered in the bucket of profiles is no part of it.
func TestAnswersAreNoProfilesInJavaScript(t *testing.T) {
	t.Parallel()
	needs(t, "install Node.js 18 or later", program("node"))
	out, err := exec.CommandContext(t.Context(), "node", "testdata/profiles.mjs").CombinedOutput()
	if want := "broken: cannot be read\ncoder: new\n"; err != nil || string(out) != want {
		t.Errorf("profiles are\n%s%v, want\n%s", out, err, want)
	}
}
