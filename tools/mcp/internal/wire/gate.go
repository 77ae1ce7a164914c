package wire

import (
	"context"
	"io"
	"sync"
)

// Gate limits how many large messages are read at once, by all bodies that share it: decoded, each takes several times
// its size.
type Gate struct {
	small int
	large chan struct{}
}

// NewGate returns a gate for most messages of more than small bytes at once.
func NewGate(small, most int) *Gate { return &Gate{small, make(chan struct{}, most)} }

// Gated is [Counted], but a message with more bytes than are small is read on only when the gate has room for it, until
// the next message begins, or the body is closed. If ctx ends before there is room, Read returns its cause.
func (g *Gate) Gated(ctx context.Context, body io.ReadCloser, framing Framing, most int) io.ReadCloser {
	return &gated{counted: counted{ReadCloser: body, framing: framing, most: most}, gate: g, ctx: ctx}
}

type gated struct {
	counted
	gate *Gate
	ctx  context.Context

	mu     sync.Mutex // Close may be called while Read waits
	holds  bool
	closed bool
}

// Read implements [io.Reader].
func (g *gated) Read(p []byte) (int, error) {
	if g.size <= g.gate.small { // the large message that was read before has been taken
		g.release(false)
	}
	n, err := g.counted.Read(p)
	if g.size > g.gate.small {
		if full := g.hold(); full != nil {
			return 0, full
		}
	}
	return n, err
}

// hold waits for room in the gate, unless the body has it.
func (g *gated) hold() error {
	g.mu.Lock()
	holds := g.holds || g.closed
	g.mu.Unlock()
	if holds {
		return nil
	}
	select {
	case g.gate.large <- struct{}{}:
	case <-g.ctx.Done():
		return context.Cause(g.ctx)
	}
	g.mu.Lock()
	g.holds = true
	closed := g.closed
	g.mu.Unlock()
	if closed {
		g.release(true)
	}
	return nil
}

func (g *gated) release(closed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed = g.closed || closed; g.holds {
		g.holds = false
		<-g.gate.large
	}
}

// Close implements [io.Closer].
func (g *gated) Close() error {
	g.release(true)
	return g.counted.Close()
}
