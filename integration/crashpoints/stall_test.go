package crashpoints_test

import (
	"sync/atomic"
	"time"
)

// stall measures for how long the machine did not schedule the test process.
type stall struct {
	lost atomic.Int64 // nanoseconds
	stop chan struct{}
	done chan struct{}
}

// maxStall is far less than one second. If a server redelivers the messages of a dead runner more than a second late,
// the next runner admits other commands ahead of them. So after a longer stall the order of commands proves nothing.
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

// end stops the measurement and returns the lost time.
func (s *stall) end() time.Duration {
	close(s.stop)
	<-s.done
	return time.Duration(s.lost.Load())
}
