package models

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
)

// DefaultConcurrency is how many model calls are served at once unless said otherwise.
const DefaultConcurrency = 256

const (
	modelBacklog   = 1024             // requests that came and were not looked at yet
	modelFlush     = time.Second      // to learn of the last of them
	modelSubscribe = 10 * time.Second // for the subscription to be known to the NATS server
)

// ServerOptions configures [NewServer]. Model is needed.
type ServerOptions struct {
	Model       Model
	Concurrency int           // calls at once, others are refused; 0 is DefaultConcurrency
	StopTimeout time.Duration // what calls under way get when Run is to end; 0 is ten seconds
	Heartbeat   time.Duration // longest without a message to a caller; 0 is a second
	MaxBytes    int           // of a request; 0 is 64 MiB
	MaxTotal    int           // bytes of the requests of all calls at work; 0 is 256 MiB
	Logger      *slog.Logger  // nil discards
}

// Server answers the model calls of [Client]s. Any number share them, in as many processes. It sends what its
// model says and nothing else: no key leaves the process.
type Server struct {
	conn     *bus.Conn
	o        ServerOptions
	slots    chan struct{}
	calls    sync.WaitGroup
	ready    chan struct{}
	requests total

	mu      sync.Mutex
	serving map[string]*servedCall // by their ids
}

// NewServer returns a server on c, which stays the caller's and has to outlive it.
func NewServer(c *bus.Conn, o ServerOptions) *Server {
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 10 * time.Second
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = modelHeartbeat
	}
	if o.MaxBytes == 0 {
		o.MaxBytes = maxModelBytes
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MaxTotal = cmp.Or(o.MaxTotal, maxTotal)
	return &Server{conn: c, o: o, slots: make(chan struct{}, o.Concurrency), ready: make(chan struct{}),
		requests: total{limit: o.MaxTotal}, serving: map[string]*servedCall{}}
}

// Ready is closed once calls are taken.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves until ctx ends. Then it takes no more calls, and those under way have StopTimeout to end; what is left is
// cut off with an error after which asking again may help. It is called once.
func (s *Server) Run(ctx context.Context) error {
	// One subscription for all calls: every new one has the NATS server look all its subjects up anew.
	control, err := s.conn.NATS().Subscribe(s.conn.Subjects().ModelCall("*"), s.route)
	if err != nil {
		return fmt.Errorf("models: serve models: %w", err)
	}
	defer func() { _ = control.Unsubscribe() }()
	requests := make(chan *nats.Msg, modelBacklog)
	sub, err := s.conn.NATS().ChanQueueSubscribe(s.conn.Subjects().ModelRequest(), modelQueue, requests)
	if err != nil {
		return fmt.Errorf("models: serve models: %w", err)
	}
	if err := s.conn.NATS().FlushTimeout(modelSubscribe); err != nil {
		return errors.Join(fmt.Errorf("models: serve models: %w", err), sub.Unsubscribe())
	}
	close(s.ready)
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	for ctx.Err() == nil {
		select {
		case m := <-requests:
			s.take(work, m)
		case <-ctx.Done():
		}
	}
	s.refuseRest(sub, requests)
	cut := time.AfterFunc(s.o.StopTimeout, func() { kill(errModelsStop) })
	defer cut.Stop()
	s.calls.Wait()
	return nil
}

// route gives a message to the call that it is about, if this server serves it.
func (s *Server) route(m *nats.Msg) {
	s.mu.Lock()
	call := s.serving[m.Subject[len(s.conn.Subjects().ModelCall("")):]]
	s.mu.Unlock()
	if call != nil {
		call.receive(m)
	}
}

// enter has a call get its messages until leave is called.
func (s *Server) enter(c *servedCall) (leave func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving[c.id] = c
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.serving, c.id)
	}
}

// take begins a call, or refuses it: others may have room. A call whose answer is to go anywhere but to a client's
// inbox is dropped: a client must not have this process publish where the client itself may not.
func (s *Server) take(ctx context.Context, m *nats.Msg) {
	if !schemas.MayAnswer(m.Reply) {
		s.o.Logger.Warn("model call dropped: its reply subject is no inbox", "reply", fmt.Sprintf("%.100q", m.Reply))
		return
	}
	select {
	case s.slots <- struct{}{}:
	default:
		newServedCall(s, m).refuse(ctx, errModelsFull)
		return
	}
	s.calls.Go(func() {
		defer func() { <-s.slots }()
		newServedCall(s, m).run(ctx)
	})
}

// refuseRest ends the subscription, and answers the requests that had already come. It drains: the NATS server sends
// new requests to others from then on, and what it had sent here before stays in the channel until somebody takes it.
func (s *Server) refuseRest(sub *nats.Subscription, requests <-chan *nats.Msg) {
	if err := sub.Drain(); err != nil {
		return // the connection is closed: nobody can be answered
	}
	_ = s.conn.NATS().FlushTimeout(modelFlush) // behind its answer nothing comes; without one the callers have lost us too
	for {
		select {
		case m := <-requests:
			if schemas.MayAnswer(m.Reply) {
				newServedCall(s, m).refuse(context.Background(), errModelsStop)
			}
		default:
			return
		}
	}
}
