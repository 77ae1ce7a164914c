package crashpoints_test

import (
	"sync/atomic"
	"time"
)

// stall measures how much time the machine has taken away from the whole process.
type stall struct {
	lost atomic.Int64 // nanoseconds
	stop chan struct{}
	done chan struct{}
}

// maxStall is far less than the second by which a server may be late with what a dead runner had in flight before other
// commands are let in ahead of it: after a longer one the order of commands proves nothing.
const maxStall = 300 * time.Millisecond

func watchStall() *stall {
	s := &stall{stop: make(chan struct{}), done: make(chan struct{})}
	go s.watch()
	return s
}

func (s *stall) watch() {
	defer close(s.done)
	const every = 20 * time.Millisecond
	tick := time.NewTicker(every)
	defer tick.Stop()
	for last := time.Now(); ; {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		now := time.Now()
		s.lost.Add(int64(max(now.Sub(last)-2*every, 0)))
		last = now
	}
}

// end ends the watch and returns what was lost.
func (s *stall) end() time.Duration {
	close(s.stop)
	<-s.done
	return time.Duration(s.lost.Load())
}
