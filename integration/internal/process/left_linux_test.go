package process

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// leavingEnv makes the test binary leave processes behind.
const leavingEnv = "LOOPBUS_TEST_LEAVING"

func TestMain(m *testing.M) {
	command := os.Getenv(leavingEnv)
	if command == "" {
		os.Exit(m.Run())
	}
	if err := AdoptOrphans(); err != nil {
		panic(err)
	}
	if err := exec.Command("sh", "-c", command).Run(); err != nil {
		panic(err)
	}
	os.Exit(nothingLeft(0, time.Second))
}

// The processes that a test leaves behind are found, named and killed, however they detach themselves.
func TestNothingLeft(t *testing.T) {
	length := fmt.Sprintf("%d.25", 1_000_000+os.Getpid())
	for command, left := range map[string]bool{
		"true": false, "sleep 0.1 &": false,
		"sleep N >/dev/null 2>&1 &":                                         true,
		"env -i setsid -f sleep N >/dev/null 2>&1":                          true,
		"(setsid sh -c '(sleep N >/dev/null 2>&1 &) & exit' &) ; sleep 0.1": true,
	} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command("/proc/self/exe")
			cmd.Env = append(os.Environ(), leavingEnv+"="+strings.ReplaceAll(command, "N", length))
			out, err := cmd.CombinedOutput()
			if named := strings.Contains(string(out), "left a process behind"); named != left || (err != nil) != left {
				t.Errorf("%v, %s", err, out)
			}
		})
	}
}
