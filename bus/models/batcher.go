package models

import "sync"

// batcher sends the frames of a call's answer. While it sends one payload, it collects the next frames and then sends
// them as one payload, one frame per line. So a fast model needs fewer messages, and no frame waits for a later one. A
// batcher may be used concurrently.
type batcher struct {
	out   *partWriter
	lines bool // the caller accepts several frames in a payload; else each frame is sent at once

	mu      sync.Mutex
	pending []byte
	err     error // the first error of sending
	wake    chan struct{}
	done    chan struct{} // closed when run has returned
}

// maxPending is how many bytes of frames may wait for run. With more, send sends them itself, and so blocks the model.
// It bounds the memory while the connection is blocked.
const maxPending = 32 << 10

func newBatcher(out *partWriter, lines bool) *batcher {
	b := &batcher{out: out, lines: lines, wake: make(chan struct{}, 1), done: make(chan struct{})}
	if lines {
		go b.run()
	} else {
		close(b.done)
	}
	return b
}

// run sends the pending frames until close is called.
func (b *batcher) run() {
	defer close(b.done)
	for range b.wake {
		b.mu.Lock()
		b.flush()
		b.mu.Unlock()
	}
}

// send adds a frame. It returns the error of an earlier frame, or of this one if it was sent at once.
func (b *batcher) send(frame []byte) error {
	if !b.lines {
		return b.out.write(frame)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.pending) > 0 {
		b.pending = append(b.pending, '\n')
	}
	if b.pending = append(b.pending, frame...); len(b.pending) >= maxPending {
		b.flush()
		return b.err
	}
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return b.err
}

// flush sends the pending frames. mu is held.
func (b *batcher) flush() {
	if len(b.pending) > 0 && b.err == nil {
		b.err = b.out.write(b.pending)
	}
	b.pending = nil // not reused: nats.go may still refer to the published bytes
}

// close sends the pending frames and waits for run. send must not be called after close.
func (b *batcher) close() {
	if b.lines {
		close(b.wake)
	}
	<-b.done
	b.mu.Lock()
	defer b.mu.Unlock()
	b.flush()
}
