package reader

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	// maxIdle is how many goroutines may wait for their next flight. Goroutines that a burst needed beside them end.
	maxIdle  = 64
	idleTime = 500 * time.Millisecond // that one waits
)

// pool starts flights in goroutines that are used again: one that is new for each delivery grows its stack anew, which
// is a twentieth of a tool turn's processor time.
type pool struct {
	fly     func(f *flight)
	next    chan *flight // to a goroutine that waits; has no room
	idle    atomic.Int32 // goroutines that wait
	running *sync.WaitGroup
	end     <-chan struct{} // closed when none is to wait any more
}

// start has a flight carried out. It does not wait.
func (c *pool) start(f *flight) {
	select {
	case c.next <- f:
	default:
		c.running.Go(func() { c.work(f) })
	}
}

func (c *pool) work(f *flight) {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for f != nil {
		c.fly(f)
		f = nil
		if c.idle.Add(1) <= maxIdle {
			idle.Reset(idleTime)
			select {
			case f = <-c.next:
			case <-idle.C:
			case <-c.end:
			}
		}
		c.idle.Add(-1)
	}
}
