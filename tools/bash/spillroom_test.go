package bash_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
)

// commands are commands with a long output that run at the same time. They wait in the middle of it until the gate is
// opened.
type commands struct {
	t       *testing.T
	tool    tools.Tool
	dir     string // of the spills
	gate    string
	results []string
	ended   sync.WaitGroup
}

// startCommands starts n commands that write before bytes, wait, and write after bytes. It returns when n files with
// outputs exist.
func startCommands(t *testing.T, o bash.Options, n int, before, after string) *commands {
	t.Helper()
	c := &commands{t: t, dir: t.TempDir(), gate: filepath.Join(t.TempDir(), "gate"), results: make([]string, n)}
	if err := syscall.Mkfifo(c.gate, 0o600); err != nil {
		t.Fatal(err)
	}
	o.TempDir = c.dir
	c.tool, _ = setUp(t, o)
	for i := range n {
		c.ended.Go(func() {
			c.results[i], _ = run(t, c.tool, long(before)+`; : <'`+c.gate+`'; `+long(after))
		})
	}
	eventually(t, time.Minute, "all outputs are kept", func() bool { return len(names(t, c.dir)) == n })
	return c
}

// open lets the commands go on, and returns when all have ended.
func (c *commands) open() {
	c.t.Helper()
	gate, err := os.OpenFile(c.gate, os.O_RDWR, 0)
	if err != nil {
		c.t.Fatal(err)
	}
	c.ended.Wait()
	_ = gate.Close()
}

// size returns how many bytes all outputs have together.
func (c *commands) size() (total int64) {
	c.t.Helper()
	for _, name := range names(c.t, c.dir) {
		info, err := os.Stat(filepath.Join(c.dir, name))
		if err != nil {
			c.t.Fatal(err)
		}
		total += info.Size()
	}
	return total
}

// long is a command with an output of so many bytes.
func long(bytes string) string { return `head -c ` + bytes + ` /dev/zero | tr '\0' x` }

// Commands that run at the same time do not keep more than all outputs may have together. Each keeps a beginning, until
// it has ended and others need the room.
func TestOutputsOfConcurrentCommandsStayWithinTheTotal(t *testing.T) {
	t.Parallel()
	o := bash.Options{SpillBytes: 1_000_000, SpillTotal: 2_000_000}
	c := startCommands(t, o, 8, "100000", "1000000")
	c.open()
	if size := c.size(); size > o.SpillTotal || size < o.SpillTotal/2 {
		t.Errorf("the outputs have %d bytes, they may have %d", size, o.SpillTotal)
	}
	for _, result := range c.results {
		if !strings.Contains(result, " of the output: "+c.dir) {
			t.Errorf("%q", result[max(0, len(result)-200):])
		}
	}
}

// The output of a command that still runs makes no room for another one: its file would take up as much without a name.
func TestOutputsThatAreStillWrittenAreNotRemoved(t *testing.T) {
	t.Parallel()
	c := startCommands(t, bash.Options{SpillBytes: 60_000, SpillTotal: 60_000}, 1, "55000", "1000")
	before := names(t, c.dir)
	if got, isError := run(t, c.tool, long("55000")); isError || !strings.Contains(got, "The full output could not be "+
		"kept: the outputs of other commands, which still run, take up all the room") {
		t.Errorf("%v %q", isError, got[max(0, len(got)-200):])
	}
	if now := names(t, c.dir); len(now) != 1 || now[0] != before[0] {
		t.Errorf("there are %q, there was %q", now, before)
	}
	c.open()
	if got := c.results[0]; !strings.HasSuffix(got, "Full output: "+filepath.Join(c.dir, before[0])+"]") ||
		c.size() != 56_000 {
		t.Errorf("%q", got[max(0, len(got)-200):])
	}
	run(t, c.tool, long("55000"))
	if now := names(t, c.dir); len(now) != 1 || now[0] == before[0] {
		t.Errorf("after the next command there are %q", now)
	}
}
