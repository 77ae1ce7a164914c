package turns

import (
	"context"
	"runtime/debug"
	"sync"
)

const (
	// largeLoad is how much is read before a load waits for its turn, and largeLoads how many loads of more are under way
	// at once. What is read takes several times its size, and the size is known only then. Of those that read more than
	// hugeLoad one is under way, beside the others.
	largeLoad, hugeLoad = 4 << 20, 16 << 20
	largeLoads          = 2
)

// Loads bounds how many large logs, snapshots and payloads a process reads at once. Nil lets all be read. It is safe
// for concurrent use.
type Loads struct{ of *Turns[loadClass] }

// NewLoads returns Loads of which none is under way.
func NewLoads() *Loads { return &Loads{New[loadClass](largeLoads)} }

// loadClass is that of loads which wait for each other. The number is how many of the turns of its class a load takes.
type loadClass int

const (
	little loadClass = 0
	large  loadClass = 1
	huge   loadClass = largeLoads
)

func classOf(bytes int) loadClass {
	switch {
	case bytes <= largeLoad:
		return little
	case bytes <= hugeLoad:
		return large
	}
	return huge
}

// Load returns a context for reading what stays in memory. Once it has read much ([Pass]), a load waits for its turn,
// and has it until end. To call end again does nothing. A load within another one is part of that.
func (l *Loads) Load(ctx context.Context) (loading context.Context, end func()) {
	total := 0
	return l.begin(ctx, func(n int) int {
		total += n
		return total
	})
}

// Stream is [Loads.Load] for a reader that keeps nothing of what it has read when it reads on: each piece counts by
// itself.
func (l *Loads) Stream(ctx context.Context) (loading context.Context, end func()) {
	return l.begin(ctx, func(n int) int { return n })
}

func (l *Loads) begin(ctx context.Context, size func(n int) int) (loading context.Context, end func()) {
	if _, within := ctx.Value(gateKey{}).(Gate); l == nil || within {
		return ctx, func() {}
	}
	has, leave := little, func() {}
	return WithGate(ctx, func(ctx context.Context, n int) error {
		c := classOf(size(n))
		if c == has {
			return nil
		}
		got, err := l.wait(ctx, c)
		if err != nil {
			return err
		}
		leave() // not before, as it has much in memory already
		has, leave = c, got
		return nil
	}), func() { leave() }
}

func (l *Loads) wait(ctx context.Context, c loadClass) (leave func(), err error) {
	if c == little {
		return func() {}, nil
	}
	got, err := l.of.Wait(ctx, c, int(c))
	if c != huge || err != nil {
		return got, err
	}
	return sync.OnceFunc(func() {
		debug.FreeOSMemory() // what was read leaves several times its size as garbage
		got()
	}), nil
}
