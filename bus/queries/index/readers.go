package index

import (
	"context"
	"sync"
)

const (
	// mostReaders limits how many logs are read at once for queries and outcomes: folding takes memory, and the runner
	// has other work.
	mostReaders = 4
	// mostOfSession is the part of them that one session may have, so that a client that may query one session cannot
	// keep the clients of others waiting.
	mostOfSession = mostReaders / 2
)

// readers limits concurrent reads of logs, in total and by session.
type readers struct {
	total chan struct{}

	mu       sync.Mutex
	sessions map[string]*sessionReaders
}

// sessionReaders are the readers of one session. They exist while somebody uses them or waits for one.
type sessionReaders struct {
	slots chan struct{}
	users int
}

func newReaders() *readers {
	return &readers{total: make(chan struct{}, mostReaders), sessions: make(map[string]*sessionReaders)}
}

// Read calls f once one of the few readers of logs is free, and returns its error. Queries and outcomes share the
// readers; one session has at most half of them. If ctx ends first, Read returns its cause.
func (ix *Index) Read(ctx context.Context, session string, f func() error) error {
	s := ix.readers.use(session)
	defer ix.readers.leave(session, s)
	for _, slots := range []chan struct{}{s.slots, ix.readers.total} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return f()
}

func (r *readers) use(session string) *sessionReaders {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := r.sessions[session]
	if s == nil {
		s = &sessionReaders{slots: make(chan struct{}, mostOfSession)}
		r.sessions[session] = s
	}
	s.users++
	return s
}

func (r *readers) leave(session string, s *sessionReaders) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if s.users--; s.users == 0 {
		delete(r.sessions, session)
	}
}
