package upgrade

import (
	"slices"
	"sync"

	"github.com/loopbus/loopbus/bus/shares"
)

// Places limits the connections of a handler: those of clients that have been admitted, and those that have yet to say
// who they are. Of the former a caller leaves as many to others as it has; of the latter the oldest makes room for the
// next one, so that silent sockets keep no client out.
type Places struct {
	admitted   *shares.Shares
	mostSilent int

	mu     sync.Mutex
	silent []*Silence
}

// Silence is the place of a connection that has yet to say who its client is.
type Silence struct{ end func() }

// NewPlaces returns places for so many connections of admitted clients and, in addition, so many silent ones.
func NewPlaces(most, silent int) *Places {
	return &Places{admitted: shares.New(most), mostSilent: silent}
}

// Take reserves the place of an admitted client of a caller, "" for one that cannot be told from others. It returns
// false if there is none for this caller; otherwise the place must be released.
func (p *Places) Take(caller string) bool { return p.admitted.Take(caller, 1) }

// Release releases the place of an admitted client of the caller.
func (p *Places) Release(caller string) { p.admitted.Release(caller, 1) }

// Wait reserves the place of a silent connection. end is called if it has to make room; it must not block.
func (p *Places) Wait(end func()) *Silence {
	s := &Silence{end}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.silent) >= p.mostSilent {
		p.silent[0].end()
		p.silent = slices.Delete(p.silent, 0, 1)
	}
	p.silent = append(p.silent, s)
	return s
}

// Spoken releases the place of a silent connection whose client was admitted, or that has ended. Calling it again
// changes nothing.
func (p *Places) Spoken(s *Silence) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.silent = slices.DeleteFunc(p.silent, func(other *Silence) bool { return other == s })
}
