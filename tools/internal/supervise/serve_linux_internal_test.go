package supervise

import (
	"os"
	"os/exec"
	"testing"
)

// A list that is read while processes come and go may miss one. What is left is known nevertheless, as long as it was
// not waited for.
func TestChildrenAreKnownUntilTheyWereWaitedFor(t *testing.T) {
	others := hasChildren() // a supervisor of an earlier test
	cmd := exec.Command("/bin/sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range descendants(os.Getpid()) {
		if pid == cmd.Process.Pid && !hasChildren() {
			t.Error("a child that is listed is not known")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !hasChildren() {
		t.Error("a child that was not waited for is not known")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("it was not killed")
	}
	if hasChildren() && !others {
		t.Error("a child is known that was waited for")
	}
}
