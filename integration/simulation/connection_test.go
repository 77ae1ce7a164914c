package simulation_test

import "time"

// connection is the connection of a process to the servers. Their messages arrive in order, as long as the connection
// is not cut. The lock of the process guards it.
type connection struct {
	cut     bool
	arrives time.Time // when the last message arrives
	came    []func()  // messages that have arrived and are not processed yet
	taking  bool
	again   chan struct{} // has a token after each reconnect
}

// deliver sends a message to the process.
func (p *process) deliver(what string, f func()) {
	latency := p.draw(p.name + " hears " + what).latency()
	p.mu.Lock()
	defer p.mu.Unlock()
	at := time.Now().Add(latency)
	if next := p.arrives.Add(time.Microsecond); at.Before(next) {
		at = next
	}
	p.arrives = at
	time.AfterFunc(time.Until(at), func() { p.arrive(f) })
}

func (p *process) arrive(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.dead || p.cut {
		return
	}
	p.came = append(p.came, f)
	if !p.taking {
		p.taking = true
		go p.takeIn()
	}
}

// takeIn processes the messages that have arrived, once the process is not suspended.
func (p *process) takeIn() {
	for {
		dead := p.pass("hears") != nil
		p.mu.Lock()
		if dead || len(p.came) == 0 {
			p.came, p.taking = nil, false
			p.mu.Unlock()
			return
		}
		f := p.came[0]
		p.came = p.came[1:]
		p.mu.Unlock()
		f()
	}
}

// blink cuts the connection for a while.
func (p *process) blink(d time.Duration) {
	p.setCut(true)
	time.Sleep(d)
	p.setCut(false)
	select {
	case p.again <- struct{}{}:
	default:
	}
}

func (p *process) setCut(is bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cut = is
}

func (p *process) isCut() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cut
}
