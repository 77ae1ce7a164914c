package gateway

import (
	"slices"
	"sync"
)

// maxSilent is how many connections there may be besides that have not connected by the protocol.
const maxSilent = 64

// places are those of connections: of clients that have shown what lets them in, and of those that have said nothing
// yet. Of these the one that has kept silent longest makes room for the next, so that sockets on which nobody says
// anything keep no client out.
type places struct {
	most int

	mu     sync.Mutex
	taken  int
	silent []*silence
}

// silence is the place of a connection that has said nothing yet.
type silence struct{ end func() }

// take takes a place. It returns false where there is none; else the place has to be released.
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

// wait takes the place of a connection that has yet to connect. end is called where it has to make room, and must not
// wait.
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

// spoken releases the place of a connection that has said what lets it in, or has ended. A second time changes
// nothing.
func (p *places) spoken(s *silence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = slices.DeleteFunc(p.silent, func(other *silence) bool { return other == s })
}
