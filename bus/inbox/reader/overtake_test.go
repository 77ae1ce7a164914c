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
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/priority"
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
		case <-priority.Raised(ctx): // it is stored first
			entered()
			h.note(m, " stored")
			return schemas.ErrLater
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	entered()
	h.note(m, "")
	return nil
}

func (h *crowded) note(m *reader.Message, what string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.done = append(h.done, fmt.Sprint(m.Seq)+what)
}

func (h *crowded) carriedOut() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return strings.Join(h.done, ", ")
}

// TestAbortsOvertakeWhatWaits has an abort come behind messages of its session that wait for memory. It overtakes them
// after a moment if all of them yield. What inherits its priority is stored first. What comes behind it does neither.
func TestAbortsOvertakeWhatWaits(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		messages               []reader.Message
		atOnce, meanwhile, all string // all is empty if the order in which they go on is open
	}{
		"all yield": {[]reader.Message{{Yields: true}, {Yields: true}, {Aborts: true}, {Yields: true}},
			"", "3", "3, 1, 2, 4"},
		"two aborts": {[]reader.Message{{Yields: true}, {Aborts: true}, {Yields: true}, {Aborts: true}},
			"", "2, 4", "2, 4, 1, 3"},
		"a branch": {[]reader.Message{{Yields: true}, {}, {Aborts: true}}, "", "", "1, 2, 3"},
		"a steer":  {[]reader.Message{{Inherits: true}, {Aborts: true}}, "1 stored, 2", "1 stored, 2", "1 stored, 2, 1"},
		"two steers": {[]reader.Message{{Inherits: true}, {Inherits: true}, {Aborts: true}}, "1 stored, 2 stored, 3",
			"1 stored, 2 stored, 3", ""},
		"a steer after a result": {[]reader.Message{{Yields: true}, {Inherits: true}, {Aborts: true}}, "", "2 stored, 3", ""},
		"a steer behind":         {[]reader.Message{{Aborts: true}, {Inherits: true}}, "1", "1", "1, 2"},
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
				if got := h.carriedOut(); got != c.atOnce {
					t.Errorf("at once: %q, want %q", got, c.atOnce)
				}
				time.Sleep(5 * time.Second)
				if got := h.carriedOut(); got != c.meanwhile {
					t.Errorf("meanwhile: %q, want %q", got, c.meanwhile)
				}
				close(h.free)
				time.Sleep(5 * time.Second)
				if got := h.carriedOut(); c.all != "" && got != c.all {
					t.Errorf("in all: %q, want %q", got, c.all)
				}
			})
		})
	}
}

// TestAbortsWaitForNoPlace has as many sessions at work as may be. A steer waits for its place until an abort comes
// behind it.
func TestAbortsWaitForNoPlace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		q, h := newQueue(), &crowded{free: make(chan struct{})}
		r := run(t, 1, alone{}, q, h)
		consumer, seq := <-q.created, uint64(0)
		receive := func(session string, m reader.Message) {
			seq++
			m.Seq, m.Session, m.Body = seq, session, kept{}
			r.Receive(consumer, seq, &m, fmt.Sprint("reply", seq))
		}
		for n := range 100 {
			receive(fmt.Sprint("other", n), reader.Message{})
		}
		time.Sleep(5 * time.Second) // the newest have started
		receive("s1", reader.Message{Inherits: true})
		time.Sleep(5 * time.Second)
		receive("s1", reader.Message{Aborts: true, Urgent: true})
		synctest.Wait()
		if got, want := h.carriedOut(), "101 stored, 102"; got != want {
			t.Errorf("carried out: %q, want %q", got, want)
		}
	})
}

// kept is a body that drops nothing.
type kept struct{}

func (kept) DropPayload() bool { return false }
