package supervise

import (
	"os"
	"os/exec"
	"testing"
)

// A child counts until it was waited for, also if the list of descendants has missed it because it was
// read while processes started and ended.
func TestHasChildrenUntilWait(t *testing.T) {
	others := hasChildren() // a supervisor of an earlier test
	cmd := exec.Command("/bin/sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for _, pid := range descendants(os.Getpid()) {
		if pid == cmd.Process.Pid && !hasChildren() {
			t.Error("hasChildren is false although a child is listed")
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if !hasChildren() {
		t.Error("hasChildren is false before Wait")
	}
	if err := cmd.Wait(); err == nil {
		t.Error("the child was not killed")
	}
	if hasChildren() && !others {
		t.Error("hasChildren is true after Wait")
	}
}
