package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// An archive is read and proved like a log, and shows the same; one that was changed is refused.
func TestReplayOfAnArchive(t *testing.T) {
	w := newWorld(t)
	w.serviceSession()
	w.bigSession()
	for _, session := range []string{"service", "big"} {
		var b bytes.Buffer
		if _, err := archive.Write(w.ctx(), w.store, session, &b); err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), session+".jsonl")
		write := func(text string) {
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write(b.String())
		for _, args := range [][]string{{"export", session}, {"show", session, "--full"}, {"state", session}} {
			live, kept := w.replay(args...), invoke(t, nil, append(args, "--archive", file)...)
			if live.stdout != kept.stdout || kept.code != 0 {
				t.Errorf("%v of the archive ends with %d and is\n%s\n%s\nwant\n%s", args, kept.code, kept.stdout, kept.stderr,
					live.stdout)
			}
		}
		expect(t, invoke(t, nil, "verify", "--archive", file), cli.StatusOK, session+": ok", "")
		write(strings.Replace(b.String(), `"time":"20`, `"time":"21`, 1))
		expect(t, invoke(t, nil, "verify", "--archive", file), cli.StatusBad, "", "bad archive")
	}
}
