//go:build unix

package storage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/cluster"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) {
	cluster.Main()
	bustest.Main(m)
}

// journal collects the log lines of a runner.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

// says returns the number of lines that contain all the words.
func (j *journal) says(words ...string) (lines int) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for line := range strings.Lines(j.text.String()) {
		if !slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(line, word) }) {
			lines++
		}
	}
	return lines
}

// publish sends a prompt and waits for its acknowledgement.
func publish(t *testing.T, s *system.System, session, text string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	_, err := s.Session(t, session).Send(ctx, &schemas.Prompt{Input: client.Text(text)})
	return err
}

// settled waits until every acknowledged text was answered, and checks the logs.
func settled(t *testing.T, s *system.System, acked map[string][]string) {
	t.Helper()
	s.EmptyInbox(t)
	for session, texts := range acked {
		log := s.LogOf(t, session)
		said := slices.DeleteFunc(system.Said(log), func(text string) bool { return !slices.Contains(texts, text) })
		if !slices.Equal(said, texts) {
			t.Errorf("session %s has %d texts, of %d acknowledged", session, len(said), len(texts))
		}
		for _, reason := range system.Reasons(log) {
			if reason != schemas.EndNoToolCalls {
				t.Errorf("session %s: a run ended with %s", session, reason)
			}
		}
		if refused := system.DataOf[*schemas.CommandRejected](log); len(refused) > 0 {
			t.Errorf("session %s rejected %+v", session, refused[0])
		}
		s.Verify(t, session)
	}
}

// blocks returns the files with a stream's messages, in order.
func blocks(t *testing.T, store, stream string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(store, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no blocks of %s: %v", stream, err)
	}
	slices.SortFunc(files, func(a, b string) int { return len(a) - len(b) + strings.Compare(a, b) })
	return files
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func writeFile(t *testing.T, path string, raw []byte) {
	t.Helper()
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
}

var noArguments = json.RawMessage(`{}`)
