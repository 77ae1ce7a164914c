package gateway

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/loop"
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
type subscription struct {
	stop context.CancelFunc
	at   atomic.Pointer[position]
}

// position is how far a subscription is: the events up to seq are sent, or are from before it.
type position struct {
	seq   uint64
	known loop.Known // the commands that the log has by then
}

func (s *subscription) reached(state *loop.State) { s.at.Store(&position{state.Seq, state.Known}) }

func (s *subscriptions) init(p *peer) { s.p, s.all = p, map[string]*subscription{} }

// add subscribes to a session from the end of its log on, with the reply being streamed. Adding it again changes
// nothing. Calls for one key come one after another. Other sessions do not wait while a log is read.
func (s *subscriptions) add(ctx context.Context, key string) (*subscription, error) {
	if err := bridge.CheckID("a session's key", key); err != nil {
		return nil, err
	}
	if one, err := s.get(key); one != nil || err != nil {
		return one, err
	}
	f, err := s.p.open(ctx, s.p.session(key), true)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if one, err := s.getLocked(key); one != nil || err != nil {
		f.Room.Release()
		return one, err
	}
	follow, stop := context.WithCancel(context.WithoutCancel(ctx))
	one := &subscription{stop: stop}
	one.reached(&f.State)
	s.all[key] = one
	s.ended.Go(func() {
		defer s.forget(key, one)
		defer f.Room.Release()
		v := newView(key, &f.State, s.p.tools, func(name string, payload any) error {
			return s.p.event(name, payload, nil)
		})
		for item, err := range f.Items(follow) {
			if err == nil {
				err = v.take(item)
			}
			if err != nil {
				s.p.broken(follow, "session "+f.Session.ID(), err)
				return
			}
			one.reached(&f.State)
		}
	})
	return one, nil
}

// get returns the subscription to a session, nil if there is none; its error is the reason why there can be none.
func (s *subscriptions) get(key string) (*subscription, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.getLocked(key)
}

func (s *subscriptions) getLocked(key string) (*subscription, error) {
	one := s.all[key]
	switch {
	case s.closed:
		return nil, errGone
	case one == nil && len(s.all) >= maxSubscriptions:
		return nil, &bridge.RequestError{Reason: "too many subscriptions: unsubscribe from another session"}
	}
	return one, nil
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
