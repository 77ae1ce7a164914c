package gateway

import (
	"slices"
	"sync"
)

// maxSilent limits the connections that have not connected by the protocol yet.
const maxSilent = 64

// places limits connections: those of clients that have been admitted, and those that have sent nothing yet. Of the
// latter the oldest makes room for the next one, so that silent sockets keep no client out.
type places struct {
	most int

	mu     sync.Mutex
	taken  int
	silent []*silence
}

// silence is the place of a connection that has sent nothing yet.
type silence struct{ end func() }

// take reserves a place. It returns false if there is none; otherwise the place must be released.
func (p *places) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.taken >= p.most {
		return false
	}
	p.taken++
	return true
}

func (p *places) release() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
}

// wait reserves the place of a connection that has yet to connect. end is called if it has to make room; it must not
// block.
func (p *places) wait(end func()) *silence {
	s := &silence{end}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.silent) >= maxSilent {
		p.silent[0].end()
		p.silent = slices.Delete(p.silent, 0, 1)
	}
	p.silent = append(p.silent, s)
	return s
}

// spoken releases the place of a connection that was admitted or has ended. Calling it again changes nothing.
func (p *places) spoken(s *silence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = slices.DeleteFunc(p.silent, func(other *silence) bool { return other == s })
}
