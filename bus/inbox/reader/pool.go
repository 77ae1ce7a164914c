package reader

import (
	"sync"
	"sync/atomic"
	"time"
)

const (
	maxIdle  = 64                     // goroutines that may wait for their next delivery; more of them end
	idleTime = 500 * time.Millisecond // that a goroutine waits
)

// pool processes deliveries in goroutines that it reuses: a new goroutine for each delivery has to grow its stack
// again, which is a twentieth of a tool turn's processor time.
type pool struct {
	process func(d *delivery)
	next    chan *delivery // to an idle goroutine; unbuffered
	idle    atomic.Int32   // goroutines that wait
	running *sync.WaitGroup
	end     <-chan struct{} // closed when goroutines must not wait any more
}

// start processes a delivery in a goroutine. It does not wait.
func (p *pool) start(d *delivery) {
	select {
	case p.next <- d:
	default:
		p.running.Go(func() { p.work(d) })
	}
}

func (p *pool) work(d *delivery) {
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for d != nil {
		p.process(d)
		d = nil
		if p.idle.Add(1) <= maxIdle {
			idle.Reset(idleTime)
			select {
			case d = <-p.next:
			case <-idle.C:
			case <-p.end:
			}
		}
		p.idle.Add(-1)
	}
}
