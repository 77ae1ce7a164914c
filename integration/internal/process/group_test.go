//go:build unix

package process

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Kill ends a script together with the commands that it has started, even if the script itself has ended before them.
func TestKillEndsTheGroup(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{
		"it runs":      "sleep 600 & echo $!; wait",
		"it has ended": "sleep 600 & echo $!; exit 1",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := filepath.Join(t.TempDir(), "output")
			p, err := Start(Command{Name: "script", Path: "/bin/sh", Args: []string{"-c", script}, Log: log, Group: true})
			if err != nil {
				t.Fatal(err)
			}
			var begun int
			await(t, "the script begins a command", func() bool {
				said, err := os.ReadFile(log)
				if err == nil {
					begun, err = strconv.Atoi(strings.TrimSpace(string(said)))
				}
				return err == nil
			})
			if name == "it has ended" {
				<-p.Done()
			}
			if err := p.Kill(); err != nil {
				t.Error(err)
			}
			await(t, "the command ends", func() bool { return gone(begun) })
			if err := p.Kill(); err != nil {
				t.Errorf("second kill: %v", err)
			}
		})
	}
}

// gone reports whether a process has ended, even if its parent has not waited for it.
func gone(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) || err == nil && strings.Contains(string(stat), ") Z ")
}

func await(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatalf("did not happen: %s", what)
		}
	}
}
