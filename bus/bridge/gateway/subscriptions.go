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
// nothing.
func (s *subscriptions) add(ctx context.Context, key string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return errGone
	case s.all[key] != nil:
		return nil
	case len(s.all) >= maxSubscriptions:
		return &bridge.RequestError{Reason: "too many subscriptions: unsubscribe from another session"}
	}
	f, err := s.p.open(ctx, s.p.session(key))
	if err != nil {
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
				break
			}
		}
	})
	return nil
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
