package models

import "sync"

// gatherer sends the frames of a call's answer. A frame that finds the one before it on its way waits for that, and all
// that have come meanwhile go out as one payload, a frame a line: a model that streams fast costs fewer messages, and
// no frame waits for another one to come. It may be used concurrently.
type gatherer struct {
	out   *partWriter
	lines bool // the caller reads payloads of several lines

	mu      sync.Mutex
	pending []byte
	err     error // of sending
	wake    chan struct{}
	ended   chan struct{}
}

// maxGathered is how many bytes may wait; whoever brings more sends them himself. It bounds memory where the connection
// takes nothing for a while.
const maxGathered = 32 << 10

func newGatherer(out *partWriter, lines bool) *gatherer {
	g := &gatherer{out: out, lines: lines, wake: make(chan struct{}, 1), ended: make(chan struct{})}
	if lines {
		go g.run()
	} else {
		close(g.ended)
	}
	return g
}

// run sends what is pending until close.
func (g *gatherer) run() {
	defer close(g.ended)
	for range g.wake {
		g.mu.Lock()
		g.flush()
		g.mu.Unlock()
	}
}

// send adds a frame. The error is that of a frame before it, or its own where it was sent at once.
func (g *gatherer) send(frame []byte) error {
	if !g.lines {
		return g.out.write(frame)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.pending) > 0 {
		g.pending = append(g.pending, '\n')
	}
	if g.pending = append(g.pending, frame...); len(g.pending) >= maxGathered {
		g.flush()
		return g.err
	}
	select {
	case g.wake <- struct{}{}:
	default:
	}
	return g.err
}

// flush sends what is pending. The caller holds the lock.
func (g *gatherer) flush() {
	if len(g.pending) > 0 && g.err == nil {
		g.err = g.out.write(g.pending)
	}
	g.pending = nil // the client library may still hold what was published
}

// close sends what is left. Nothing is sent after it.
func (g *gatherer) close() {
	if g.lines {
		close(g.wake)
	}
	<-g.ended
	g.mu.Lock()
	defer g.mu.Unlock()
	g.flush()
}
