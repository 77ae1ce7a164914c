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
	"github.com/loopbus/loopbus/bus/shares"
	"github.com/loopbus/loopbus/schemas"
)

// DefaultConcurrency is the default of ServerOptions.Concurrency.
const DefaultConcurrency = 256

const (
	requestBacklog   = 1024             // requests that were received and wait for Run
	drainTimeout     = time.Second      // to receive the last request after the subscription has ended
	subscribeTimeout = 10 * time.Second // for the NATS server to process the subscriptions
	// decodedFreely is the size up to which requests are decoded at once. Larger ones take turns, atOnce of them: with a
	// hundred there is no processor left to read what the NATS server sends.
	decodedFreely = 64 << 10
	atOnce        = 2
	// maxHeaders and maxHeaderBytes are what a request may have of headers. Clients send five.
	maxHeaders, maxHeaderBytes = 64, 16 << 10
)

// ServerOptions configures [NewServer]. Model is required.
type ServerOptions struct {
	Model       Model
	Concurrency int           // calls at once; further calls are refused; 0 means DefaultConcurrency
	StopTimeout time.Duration // how long running calls may continue after the context of Run has ended; 0 means 10 s
	Heartbeat   time.Duration // maximum time between two messages to a caller; 0 means 1 s
	// CallerTimeout is how long a caller that sends heartbeats may send none before its call ends; 0 means 30 s. It
	// detects the loss of a caller where the NATS server does not: in another account, or where somebody else subscribes
	// to all subjects.
	CallerTimeout time.Duration
	MaxBytes      int          // maximum bytes of a request; 0 means 64 MiB
	MaxTotal      int          // maximum bytes of the requests of all running calls; 0 means 192 MiB
	Logger        *slog.Logger // nil discards
}

// Server answers the model calls of [Client]s. Any number of servers, in any number of processes, share the calls. It
// sends only the events of its model: no API key leaves the process.
type Server struct {
	conn     *bus.Conn
	o        ServerOptions
	places   *shares.Shares // of the running calls
	calls    sync.WaitGroup
	ready    chan struct{}
	requests *shares.Shares // bytes of the requests
	uploads  uploads
	decoding chan struct{} // has an element for each large request that is decoded

	nc *nats.Conn // set by Run

	mu      sync.Mutex
	serving map[string]*serverCall // running calls, by id
}

// NewServer returns a server on c. The caller owns c and must not close it before Run returns.
func NewServer(c *bus.Conn, o ServerOptions) *Server {
	if o.Concurrency == 0 {
		o.Concurrency = DefaultConcurrency
	}
	if o.StopTimeout == 0 {
		o.StopTimeout = 10 * time.Second
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	o.CallerTimeout = cmp.Or(o.CallerTimeout, defaultCallerTimeout)
	if o.MaxBytes == 0 {
		o.MaxBytes = defaultMaxBytes
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.MaxTotal = cmp.Or(o.MaxTotal, defaultMaxTotal)
	return &Server{conn: c, o: o, places: shares.New(o.Concurrency), ready: make(chan struct{}),
		requests: shares.New(o.MaxTotal), uploads: uploads{most: o.Concurrency}, decoding: make(chan struct{}, atOnce),
		serving: map[string]*serverCall{}}
}

// Ready returns a channel that is closed once the server receives calls.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Run serves calls until ctx ends. Then it accepts no more calls and waits for the running ones. After StopTimeout it
// cancels those that still run; they end with an error with which the caller may retry. It returns an error only if it
// could not subscribe. Run may be called once.
//
// It has a connection of its own: a NATS server ends a connection to which callers send more than is read, and with it
// what the rest of the process waits for.
func (s *Server) Run(ctx context.Context) (err error) {
	if s.nc, err = s.conn.Open(ctx, "requests"); err != nil {
		return fmt.Errorf("models: serve models: %w", err)
	}
	// All calls share one subscription, because each new subscription makes the NATS server look up the subscribers of
	// all its subjects again.
	control, err := s.nc.Subscribe(s.conn.Subjects().ModelCall("*"), s.route)
	if err != nil {
		return fmt.Errorf("models: serve models: %w", err)
	}
	defer func() { _ = control.Unsubscribe() }()
	requests := make(chan *nats.Msg, requestBacklog)
	sub, err := s.nc.ChanQueueSubscribe(s.conn.Subjects().ModelRequest(), queueGroup, requests)
	if err != nil {
		return fmt.Errorf("models: serve models: %w", err)
	}
	if err := s.nc.FlushTimeout(subscribeTimeout); err != nil {
		return errors.Join(fmt.Errorf("models: serve models: %w", err), sub.Unsubscribe())
	}
	close(s.ready)
	work, kill := context.WithCancelCause(context.WithoutCancel(ctx))
	defer kill(nil)
	for ctx.Err() == nil {
		select {
		case m := <-requests:
			s.accept(work, m)
		case <-ctx.Done():
		}
	}
	s.refusePending(sub, requests)
	stopTimer := time.AfterFunc(s.o.StopTimeout, func() { kill(errServerStopping) })
	defer stopTimer.Stop()
	s.calls.Wait()
	return nil
}

// route passes a message to its call, if this server has the call.
func (s *Server) route(m *nats.Msg) {
	s.mu.Lock()
	call := s.serving[m.Subject[len(s.conn.Subjects().ModelCall("")):]]
	s.mu.Unlock()
	if call != nil {
		call.receive(m)
	}
}

// register makes route pass messages to a call until unregister is called.
func (s *Server) register(c *serverCall) (unregister func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.serving[c.id] = c
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.serving, c.id)
	}
}

// accept starts a call, or refuses it if its caller has no place left, so that the caller may try another server. It
// drops a call whose reply subject is not a client's inbox: a client must not make this process publish where the
// client itself may not.
func (s *Server) accept(ctx context.Context, m *nats.Msg) {
	if !schemas.MayAnswer(m.Reply) {
		s.o.Logger.Warn("model call dropped: its reply subject is no inbox", "reply", fmt.Sprintf("%.100q", m.Reply))
		return
	}
	call := newServerCall(s, m)
	if headerTooLarge(m.Header) {
		call.refuse(ctx, errHeader)
		return
	}
	if !s.places.Fits(call.caller, 1) {
		call.refuse(ctx, errServerFull)
		return
	}
	ctx, call.cancel = context.WithCancelCause(ctx)
	if surplus := s.uploads.begin(call); surplus != nil {
		surplus.cancel(errServerFull)
	}
	s.calls.Go(func() { call.run(ctx) })
}

// refusePending ends the subscription and refuses the requests that this process has received already. It drains the
// subscription: the NATS server sends new requests to other servers, and the channel keeps the requests that were sent
// to this one before.
func (s *Server) refusePending(sub *nats.Subscription, requests <-chan *nats.Msg) {
	if err := sub.Drain(); err != nil {
		return // the connection is closed: no answer can be sent
	}
	// No request arrives after the answer of the NATS server. Without an answer the connection is lost, and callers
	// detect that by themselves.
	_ = s.nc.FlushTimeout(drainTimeout)
	for {
		select {
		case m := <-requests:
			if schemas.MayAnswer(m.Reply) {
				newServerCall(s, m).refuse(context.Background(), errServerStopping)
			}
		default:
			return
		}
	}
}
