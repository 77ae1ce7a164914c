package simulation_test

import (
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"
)

// chance draws everything that is random in a world. What is drawn depends on the seed, on what it is for and on how
// often that was asked for before: not on which of several goroutines comes first.
type chance struct {
	seed uint64

	mu    sync.Mutex
	asked map[string]uint64
}

func newChance(seed uint64) *chance { return &chance{seed: seed, asked: map[string]uint64{}} }

// draw returns a source of its own for one use.
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

// between returns a duration in a range, to the nanosecond: no two things happen at the same moment.
func (d draw) between(low, high time.Duration) time.Duration {
	return low + time.Duration(d.Int64N(int64(high-low)))
}

// about returns a duration that is as long on average, and at most five times as long.
func (d draw) about(mean time.Duration) time.Duration {
	return time.Duration(min(d.ExpFloat64(), 5)*float64(mean)) + time.Duration(d.IntN(1000))
}

func (d draw) percent(n int) bool { return d.IntN(100) < n }

// permille is for what is rare.
func (d draw) permille(n int) bool { return d.IntN(1000) < n }

// latency is how long a message is under way in the network.
func (d draw) latency() time.Duration { return d.between(200*time.Microsecond, 5*time.Millisecond) }

// weighted is one of several things with its weight.
type weighted[T any] struct {
	weight int
	value  T
}

// choose returns one of several things.
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
