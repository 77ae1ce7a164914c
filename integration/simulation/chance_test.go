package simulation_test

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// chance draws all random values of a world. A value depends on the seed, on its purpose and on the number of earlier
// draws for that purpose. It does not depend on the order in which goroutines run.
type chance struct {
	seed uint64

	mu    sync.Mutex
	asked map[string]uint64
}

func newChance(seed uint64) *chance { return &chance{seed: seed, asked: map[string]uint64{}} }

// draw returns a separate source for one use.
func (c *chance) draw(what string) draw {
	c.mu.Lock()
	c.asked[what]++
	n := c.asked[what]
	c.mu.Unlock()
	return draw{rand.New(rand.NewPCG(c.seed, hash(what)+n))}
}

func hash(s string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(s))
	return h.Sum64()
}

// draw is a source of random values.
type draw struct{ *rand.Rand }

// between returns a duration in a range, to the nanosecond, so that no two events happen at the same time.
func (d draw) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)))
}

// about returns a random duration with the average d, and at most five times d.
func (d draw) about(mean time.Duration) time.Duration {
	return time.Duration(min(d.ExpFloat64(), 5)*float64(mean)) + time.Duration(d.IntN(1000))
}

func (d draw) percent(n int) bool { return d.IntN(100) < n }

// permille is percent for rare events.
func (d draw) permille(n int) bool { return d.IntN(1000) < n }

// latency returns how long a message takes through the network.
func (d draw) latency() time.Duration { return d.between(200*time.Microsecond, 5*time.Millisecond) }

// weighted is a value with its relative frequency.
type weighted[T any] struct {
	weight int
	value  T
}

// choose draws one of several values.
func choose[T any](d draw, among []weighted[T]) (chosen T) {
	total := 0
	for _, w := range among {
		total += w.weight
	}
	n := d.IntN(total)
	for _, w := range among {
		if n -= w.weight; n < 0 {
			return w.value
		}
	}
	return chosen
}
