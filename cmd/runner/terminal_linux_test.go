package main

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/loopbus/loopbus/schemas"
)

// terminal returns both ends of a terminal: what is written to program is read from screen.
func terminal(t *testing.T) (screen, program *os.File) {
	t.Helper()
	open := func(name string) *os.File {
		file, err := os.OpenFile(name, os.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = file.Close() })
		return file
	}
	screen = open("/dev/ptmx")
	if err := unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	number, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return screen, open(fmt.Sprintf("/dev/pts/%d", number))
}

// On a terminal, exported events have no character that it would obey: JSON leaves those from U+0080 on as they are.
func TestExportOnATerminal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runner("r1", `[{"text":"clears \u009b2J the screen"}]`)
	w.prompt("s1")
	w.until("s1", 1, schemas.EventAgentEnd)
	screen, program := terminal(t)
	ended := make(chan error, 1)
	go func() {
		ended <- run(t.Context(), []string{"sessions", "export", "s1", "--nats", w.url}, func(string) string { return "" },
			program, os.Stderr)
		fmt.Fprintln(program, "the end")
	}()
	shown := false
	for lines := bufio.NewScanner(screen); lines.Scan() && lines.Text() != "the end"; {
		if strings.ContainsRune(lines.Text(), '\u009b') {
			t.Errorf("the terminal gets %q", lines.Text())
		}
		shown = shown || strings.Contains(lines.Text(), `clears \u009b2J the screen`)
	}
	if err := <-ended; err != nil || !shown {
		t.Errorf("%v, shown: %t", err, shown)
	}
}
