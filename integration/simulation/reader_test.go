package simulation_test

import (
	"fmt"
	"time"
)

// reader reads one partition for an inbox.
type reader struct {
	*inbox
	n    int
	over chan struct{} // closed when it is being left: what has not begun goes back
	news chan struct{} // has a token when something has changed

	// The inbox's lock guards these.
	wanted bool
	late   time.Time // when it is left, once it is not wanted, with commands in hand
	inHand int
}

// what names something the reader does.
func (rd *reader) what(does string) string { return fmt.Sprintf("%s %d", does, rd.n) }

func (rd *reader) nudge() {
	select {
	case rd.news <- struct{}{}:
	default:
	}
}

// run pulls until the partition is left.
func (rd *reader) run() {
	for !rd.leaving() {
		sent := time.Now()
		_ = rd.request(rd.ctx, rd.what("pull"), func() error {
			rd.queue.pull(rd, sent)
			return nil
		})
		if !rd.wait() {
			return // dead
		}
	}
	close(rd.over)
	rd.send(rd.what("leave"), func() { rd.queue.leave(rd) })
	rd.mu.Lock()
	defer rd.mu.Unlock()
	delete(rd.readers, rd.n)
	if rd.inbox.wanted[rd.n] && !rd.draining { // it became ours again while it was leaving
		rd.start(rd.n)
	}
}

// leaving reports whether the partition is to be left now.
func (rd *reader) leaving() bool {
	rd.mu.Lock()
	defer rd.mu.Unlock()
	return rd.draining || !rd.wanted && (rd.inHand == 0 || !rd.late.After(time.Now()))
}

// wait waits until it is time to pull again or to leave. It returns false when the process is dead.
func (rd *reader) wait() bool {
	again := time.NewTimer(pullExpiry)
	defer again.Stop()
	for {
		rd.mu.Lock()
		var late <-chan time.Time
		if !rd.wanted {
			late = time.After(time.Until(rd.late))
		}
		rd.mu.Unlock()
		select {
		case <-rd.news:
		case <-late:
		case <-again.C:
			return rd.pass(rd.what("pull")) == nil
		case <-rd.ctx.Done():
			return false
		}
		if rd.pass(rd.what("pull")) != nil {
			return false
		}
		if rd.leaving() {
			return true
		}
	}
}

// receive is where a message comes in.
func (rd *reader) receive(d *delivery) {
	if rd.pass(d.what("comes")) == nil {
		rd.take(d)
	}
}
