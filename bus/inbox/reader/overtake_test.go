package reader_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/reader"
)

// crowded is a handler whose sessions have no memory, until free is closed: only aborts are carried out.
type crowded struct {
	model
	free chan struct{}
	mu   sync.Mutex
	done []string
}

func (h *crowded) Deliver(ctx context.Context, m *reader.Message, entered func()) error {
	if !m.Aborts {
		select {
		case <-h.free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	entered()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, fmt.Sprint(m.Seq))
	return nil
}

func (h *crowded) carriedOut() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.done, " ")
}

// TestAbortsOvertakeWhatWaits has an abort come behind messages of its session that wait for memory. It overtakes them
// after a moment if all of them yield. What comes behind it does not.
func TestAbortsOvertakeWhatWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		messages  []reader.Message
		meanwhile string
		all       string
	}{
		"all yield":  {[]reader.Message{{Yields: true}, {Yields: true}, {Aborts: true}, {Yields: true}}, "3", "3 1 2 4"},
		"two aborts": {[]reader.Message{{Yields: true}, {Aborts: true}, {Yields: true}, {Aborts: true}}, "2 4", "2 4 1 3"},
		"a prompt":   {[]reader.Message{{Yields: true}, {}, {Aborts: true}}, "", "1 2 3"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q, h := newQueue(), &crowded{free: make(chan struct{})}
				r := run(t, 1, alone{}, q, h)
				consumer := <-q.created
				for i, m := range c.messages {
					m.Seq, m.Session, m.Body = uint64(i+1), "s1", kept{}
					r.Receive(consumer, m.Seq, &m, fmt.Sprint("reply", m.Seq))
				}
				synctest.Wait()
				if got := h.carriedOut(); got != "" {
					t.Errorf("at once: %s", got)
				}
				time.Sleep(5 * time.Second)
				if got := h.carriedOut(); got != c.meanwhile {
					t.Errorf("meanwhile: %q, want %q", got, c.meanwhile)
				}
				close(h.free)
				time.Sleep(5 * time.Second)
				if got := h.carriedOut(); got != c.all {
					t.Errorf("in all: %q, want %q", got, c.all)
				}
			})
		})
	}
}

// kept is a body that drops nothing.
type kept struct{}

func (kept) DropPayload() bool { return false }
