//go:build unix

package chaos_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/integration/chaos/internal/proxy"
	"github.com/loopbus/loopbus/integration/internal/process"
)

// slot keeps one process running. It restarts a process that ends although no fault has stopped it, as a supervisor
// does.
type slot struct {
	target  program.Target
	command func(generation int) process.Command
	links   []*proxy.Proxy // one to each server; nil if the process is a server
	running sync.WaitGroup
	closing chan struct{}
	faults  sync.Mutex // held during a fault, which may last longer than planned

	mu         sync.Mutex
	process    *process.Process
	generation int
	down       bool     // a fault has stopped the process, so it is not restarted
	notes      []string // exits and errors that no fault explains
}

const (
	restartPause = 300 * time.Millisecond
	// stopLimit is how long a process may take to end after SIGTERM: the documented limit, and some time for a busy
	// machine.
	stopLimit = 45 * time.Second
)

func (s *slot) String() string { return fmt.Sprintf("%s %d", s.target.Role, s.target.Number+1) }

// urlOf returns the NATS URL of the servers behind links.
func urlOf(links []*proxy.Proxy) string {
	addresses := make([]string, len(links))
	for i, l := range links {
		addresses[i] = "nats://" + l.Addr()
	}
	return strings.Join(addresses, ",")
}

// up starts the next process of the slot.
func (s *slot) up() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = false
	return s.start()
}

// start starts a process unless one is running, a fault has stopped it, or the slot is closed. The caller holds mu.
func (s *slot) start() error {
	if s.isClosing() || s.down || s.process != nil && !isDone(s.process.Done()) {
		return nil
	}
	s.generation++
	p, err := process.Start(s.command(s.generation))
	if err != nil {
		return err
	}
	s.process = p
	s.running.Go(func() { s.watch(p) })
	return nil
}

func (s *slot) isClosing() bool { return isDone(s.closing) }

func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// watch restarts the process if it ends by itself.
func (s *slot) watch(p *process.Process) {
	<-p.Done()
	s.mu.Lock()
	own := s.process == p && !s.down && !s.isClosing()
	if own {
		s.notes = append(s.notes, fmt.Sprintf("%s, process %d, ended by itself: %s", s, s.generation, p.Ended()))
	}
	s.mu.Unlock()
	if !own {
		return
	}
	select {
	case <-time.After(restartPause): // as supervisors do
	case <-s.closing:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.start(); err != nil {
		s.notes = append(s.notes, err.Error())
	}
}

// current returns the running process. With down, watch does not restart it.
func (s *slot) current(down bool) *process.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = s.down || down
	return s.process
}

func (s *slot) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.notes = append(s.notes, s.String()+": "+fmt.Sprintf(format, args...))
}

// suffer injects a fault, and undoes it when its time is over or ctx ends. It reports whether it has injected the
// fault:
// it does not if ctx has ended.
func (s *slot) suffer(ctx context.Context, f program.Fault) (bool, error) {
	s.faults.Lock()
	defer s.faults.Unlock()
	if ctx.Err() != nil {
		return false, nil
	}
	return true, s.inject(ctx, f)
}

func (s *slot) inject(ctx context.Context, f program.Fault) error {
	over, cancel := context.WithTimeout(ctx, f.For)
	defer cancel()
	switch f.Kind {
	case program.Kill:
		if err := s.current(true).Kill(); err != nil {
			return err
		}
		<-over.Done()
		return s.up()
	case program.Stop:
		s.stop()
		<-over.Done()
		return s.up()
	case program.Freeze:
		p := s.current(false)
		if err := p.Freeze(); err != nil {
			return err
		}
		<-over.Done()
		return p.Thaw()
	}
	disturb(over, s.links, f.Kind)
	return nil
}

// stop ends the process with SIGTERM, and with SIGKILL after stopLimit.
func (s *slot) stop() {
	p := s.current(true)
	if err := p.Terminate(); err != nil {
		s.note("%v", err)
	}
	select {
	case <-p.Done():
	case <-time.After(stopLimit):
		s.note("did not end within %s of SIGTERM", stopLimit)
		_ = p.Kill()
	}
}

// disturb resets connections once, or cuts or stalls them until ctx ends.
func disturb(ctx context.Context, links []*proxy.Proxy, kind program.Kind) {
	for _, l := range links {
		switch kind {
		case program.Cut:
			l.Cut()
		case program.Stall:
			l.Stall()
		default:
			l.Reset()
		}
	}
	if kind == program.Reset {
		return
	}
	<-ctx.Done()
	for _, l := range links {
		l.Heal()
	}
}

// close kills the process and waits for the slot's goroutines.
func (s *slot) close() {
	s.mu.Lock()
	close(s.closing)
	p := s.process
	s.mu.Unlock()
	if p != nil {
		_ = p.Kill()
	}
	s.running.Wait()
	for _, l := range s.links {
		l.Close()
	}
}
