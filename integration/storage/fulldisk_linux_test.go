package storage_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
)

// The next block of a stream is /dev/full, so that the kernel reports a full disk. The server acknowledges no message
// that it has not stored. Once there is room and the server was restarted, all sessions continue.
func TestAFullDisk(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	for _, stream := range []string{schemas.StreamCommands, schemas.StreamEvents} {
		t.Run(stream, func(t *testing.T) {
			t.Parallel()
			c := cluster.Start(t, cluster.Options{Servers: 1})
			s := system.Start(t, c.URL(), system.Options{Model: &rehearsal.Model{}})
			s.Prompted(t, "s0", "hello", 1)
			acked := map[string][]string{"s0": {"hello"}}
			s.EmptyInbox(t) // an empty queue starts a new block
			noRoom := nextBlock(t, blocks(t, c.StoreOf(0), stream))
			if err := os.Symlink("/dev/full", noRoom); err != nil {
				t.Fatal(err)
			}
			refused := 0
			for i := 0; refused == 0 && i < 60; i++ {
				session, text := fmt.Sprintf("s%d", i%3), fmt.Sprint(i, strings.Repeat(" word", 40<<10))
				switch err := publish(t, s, session, text); {
				case err == nil:
					acked[session] = append(acked[session], text)
				case errors.Is(err, context.DeadlineExceeded):
					refused++
				default:
					t.Fatal(err)
				}
			}
			if (refused > 0) != (stream == schemas.StreamCommands) {
				t.Errorf("%d commands were not acknowledged", refused)
			}
			c.Kill(0)
			if err := os.Remove(noRoom); err != nil {
				t.Fatal(err)
			}
			c.Start(0)
			c.WaitReady()
			settled(t, s, acked)
		})
	}
}

// nextBlock returns the name of the file after these blocks.
func nextBlock(t *testing.T, files []string) string {
	t.Helper()
	dir, last := filepath.Split(files[len(files)-1])
	n, err := strconv.Atoi(strings.TrimSuffix(last, ".blk"))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, fmt.Sprint(n+1, ".blk"))
}
