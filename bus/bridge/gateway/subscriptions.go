package gateway

import (
	"context"
	"sync"

	"github.com/loopbus/loopbus/bus/bridge"
)

// maxSubscriptions limits the subscriptions of a connection.
const maxSubscriptions = 64

// subscriptions are the sessions whose events a connection receives.
type subscriptions struct {
	p      *peer
	mu     sync.Mutex
	closed bool
	all    map[string]*subscription // by key
	ended  sync.WaitGroup
}

// subscription is the subscription to one session.
type subscription struct{ stop context.CancelFunc }

func (s *subscriptions) init(p *peer) { s.p, s.all = p, map[string]*subscription{} }

// add subscribes to a session from the end of its log on, with the reply being streamed. Adding it again changes
// nothing. Calls for one key come one after another. Other sessions do not wait while a log is read.
func (s *subscriptions) add(ctx context.Context, key string) error {
	if err := bridge.CheckID("a session's key", key); err != nil {
		return err
	}
	if known, err := s.has(key); known || err != nil {
		return err
	}
	f, err := s.p.open(ctx, s.p.session(key))
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, err := s.hasLocked(key); known || err != nil {
		return err
	}
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	one := &subscription{stop}
	s.all[key] = one
	s.ended.Go(func() {
		defer s.forget(key, one)
		v := &view{p: s.p, key: key, state: &f.State, replies: map[string]*reply{}}
		for item, err := range f.Items(follow) {
			if err == nil {
				err = v.take(item)
			}
			if err != nil {
				s.p.broken(follow, "session "+f.Session.ID(), err)
				return
			}
		}
	})
	return nil
}

// has reports whether a session is subscribed to; its error is the reason why it cannot be.
func (s *subscriptions) has(key string) (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.hasLocked(key)
}

func (s *subscriptions) hasLocked(key string) (bool, error) {
	switch {
	case s.closed:
		return false, errGone
	case s.all[key] != nil:
		return true, nil
	case len(s.all) >= maxSubscriptions:
		return false, &bridge.RequestError{Reason: "too many subscriptions: unsubscribe from another session"}
	}
	return false, nil
}

func (s *subscriptions) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one := s.all[key]; one != nil {
		one.stop()
		delete(s.all, key)
	}
}

// forget removes a subscription that has ended, but not one that has replaced it.
func (s *subscriptions) forget(key string, one *subscription) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if one.stop(); s.all[key] == one {
		delete(s.all, key)
	}
}

func (s *subscriptions) close() {
	s.mu.Lock()
	s.closed = true
	for _, one := range s.all {
		one.stop()
	}
	s.mu.Unlock()
	s.ended.Wait()
}
