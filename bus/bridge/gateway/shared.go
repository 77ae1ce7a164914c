package gateway

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/loopbus/loopbus/bus/client"
)

// maxChanges limits the changes of approvals that wait for a slow connection.
const maxChanges = 1024

// errSlow ends the approvals of a connection that does not take them.
var errSlow = errors.New("the client is slower than the changes")

// sharedApprovals follows the approvals of all sessions once for all connections: to follow them is to receive every
// event of every session, so many followers beside one busy session would be late for all others.
type sharedApprovals struct {
	follow func(context.Context) iter.Seq2[client.Approval, error]

	mu      sync.Mutex
	stop    context.CancelFunc         // ends following; nil while nobody needs it
	waiting map[string]client.Approval // by id
	readers map[*approvalReader]bool
	running sync.WaitGroup
}

type approvalReader struct {
	changes chan client.Approval // closed after the last
	err     error                // why, then
}

// all yields what waits and then the changes, as [client.Client.Approvals] does.
func (s *sharedApprovals) all(ctx context.Context) iter.Seq2[client.Approval, error] {
	return func(yield func(client.Approval, error) bool) {
		r, waiting := s.join()
		defer s.leave(r)
		for _, a := range waiting {
			if !yield(a, nil) {
				return
			}
		}
		for {
			select {
			case a, more := <-r.changes:
				if !more {
					yield(client.Approval{}, r.err)
					return
				}
				if !yield(a, nil) {
					return
				}
			case <-ctx.Done():
				yield(client.Approval{}, ctx.Err())
				return
			}
		}
	}
}

// join adds a reader and returns what is known to wait. What is not known yet follows as changes.
func (s *sharedApprovals) join() (r *approvalReader, waiting []client.Approval) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		ctx, cancel := context.WithCancel(context.Background())
		s.stop, s.waiting, s.readers = cancel, map[string]client.Approval{}, map[*approvalReader]bool{}
		s.running.Go(func() { s.run(ctx) })
	}
	for _, a := range s.waiting {
		waiting = append(waiting, a)
	}
	r = &approvalReader{changes: make(chan client.Approval, maxChanges)}
	s.readers[r] = true
	return r, waiting
}

// leave takes a reader off. Following ends with the last.
func (s *sharedApprovals) leave(r *approvalReader) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.readers[r] {
		delete(s.readers, r)
		if len(s.readers) == 0 {
			s.end()
		}
	}
}

func (s *sharedApprovals) run(ctx context.Context) {
	for a, err := range s.follow(ctx) {
		if !s.pass(ctx, a, err) {
			return
		}
	}
}

// pass gives a change, or the error that ends following, to the readers. It returns false once following has ended.
func (s *sharedApprovals) pass(ctx context.Context, a client.Approval, err error) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return false // others may have begun since
	}
	if id := approvalID(a.Session, a.Request); err == nil && a.Waiting {
		s.waiting[id] = a
	} else if err == nil {
		delete(s.waiting, id)
		a.Request.Args = nil // nobody is shown them, and many changes may wait for a slow connection
	}
	for r := range s.readers {
		why := err
		if err == nil {
			select {
			case r.changes <- a:
				continue
			default:
				why = errSlow
			}
		}
		r.err = why
		close(r.changes)
		delete(s.readers, r)
	}
	if len(s.readers) == 0 {
		s.end()
		return false
	}
	return true
}

// end stops following. The caller holds the lock.
func (s *sharedApprovals) end() {
	s.stop()
	s.stop, s.waiting, s.readers = nil, nil, nil
}
