//go:build unix

package anylanguage_test

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/bus/client/js"
	"github.com/loopbus/loopbus/console"
)

// says runs a JavaScript program that needs no server, and compares its output.
func says(t *testing.T, script, want string) {
	t.Helper()
	needs(t, "install Node.js 18 or later", program("node"))
	served := t.TempDir() // the console's modules import the client's below them
	for dir, files := range map[string]fs.FS{served: console.Files(), filepath.Join(served, "client"): js.Files()} {
		if err := os.CopyFS(dir, files); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "node", "testdata/"+script)
	cmd.Env = append(os.Environ(), "CONSOLE="+served)
	out, err := cmd.CombinedOutput()
	if err != nil || string(out) != want {
		t.Errorf("%s printed\n%s%v, want\n%s", script, out, err, want)
	}
}

// The console assigns an execution to the call in the valid reply, not to a call with the same id in a withdrawn reply,
// whose tool may differ.
func TestCallsOfWithdrawnRepliesAreNotExecuted(t *testing.T) {
	t.Parallel()
	const calls = `: read asked {"of":"read"}, bash done {"of":"bash"}
`
	says(t, "fold.mjs", "retried"+calls+"another model"+calls+"compacted"+calls+"interrupted"+calls)
}

// A batch over a slow line takes as long as it takes, as long as something arrives.
func TestASlowLineInJavaScript(t *testing.T) {
	t.Parallel()
	says(t, "unhurried.mjs", `10 of 10: all
3 of 10: the batch arrived in part
`)
}

// The console shows what is in the model's context as what it is, also after a move back to an entry that it does not
// show: a message that is for the model only, or a summary.
func TestTheContextAfterAMoveToWhatIsNotShown(t *testing.T) {
	t.Parallel()
	says(t, "path.mjs", `to a hidden message: m1, m3 away
to a branch's summary: m1, m2 away, m4 away
to a compaction: m1, m2 away, m4 away
to a branch with a hidden message: m1, m3
in a copy: b1.0, b1.2, m2 away
`)
}

// A toolworker may publish updates of a reply without end. The client yields at most 32 Mi characters of them, counting
// 64 extra for each update and for each of its parts, and then continues with the log.
func TestUpdatesWithoutAnEndInJavaScript(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	says(t, "bounded.mjs", `large: 3 of 5, then message_end
small: 260111 of 300000, then message_end
`)
}

// What comes live is bounded, by number and by bytes, while its reader is slow. A toolworker may publish updates of
// every session. What it takes of the bounds is free again once it is read.
func TestASlowReaderInJavaScript(t *testing.T) {
	t.Parallel()
	says(t, "slow.mjs", `large: 55 of 3000, 15.7 MiB, some are missed
large again: 55 of 3000, 15.7 MiB, some are missed
small: 4096 of 10000, 0.8 MiB, some are missed
small again: 4096 of 10000, 0.8 MiB, some are missed
few: 5 of 5, 5.0 MiB
few again: 5 of 5, 5.0 MiB
`)
}

// A session is deleted while it is followed, and the client ends. If it begins again, the client yields nothing of the
// new log as the rest of the old one. A commit that it reads again, or receives twice, is not another log.
func TestAnotherLogInJavaScript(t *testing.T) {
	t.Parallel()
	const ends = "DamagedError: events 1 to %d of session s1 are stored after event %d\n"
	says(t, "another.mjs", fmt.Sprintf("live: 1, "+ends, 3, 1)+
		fmt.Sprintf("after a commit of three: 1, 2, 3, "+ends, 3, 3)+
		fmt.Sprintf("stored: "+ends, 3, 1)+
		fmt.Sprintf("its beginning was missed: 1, "+ends, 1, 1)+
		fmt.Sprintf("interrupted: 1, "+ends, 3, 1)+
		"read again: 1, 2, 3, 4\ntwice: 2, 3, 4, 5, 6, 7\n"+
		"gone: 1, 2, 3, DeletedError: session s1 was deleted after event 3, with its log\n"+
		"a replica is behind: 1, 2, 3, 4\nnot begun: 1\n")
}

// The console, too, ignores answers of servers in the bucket of profiles.
func TestAnswersAreNoProfilesInJavaScript(t *testing.T) {
	t.Parallel()
	says(t, "profiles.mjs", "broken: cannot be read\ncoder: new\n")
}

// Who approves a call sees and sends back each number as it was written, also one that JavaScript cannot keep.
func TestExactNumbersInJavaScript(t *testing.T) {
	t.Parallel()
	says(t, "numbers.mjs", `event: {"id":12345678901234567890,"n":1}
query: {"approvals":[{"args":{"id":12345678901234567890,"n":1}}]}
command: {"call":"c1","args":{"id":12345678901234567890,"n":2}}
`)
}

// One malformed entry of a bucket, answer or event does not take the others with it.
func TestMalformedEntriesInJavaScript(t *testing.T) {
	t.Parallel()
	says(t, "malformed.mjs", `tools: b, f
profiles: d of 10
runners: r1 undefined, r2 true
models: n
sessions: s2
approvals: s2
events: the last
`)
}
