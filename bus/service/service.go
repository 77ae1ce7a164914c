package service

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/shares"
	"github.com/loopbus/loopbus/schemas"
)

// Options configures a service. Name and Version, a semantic version, are required.
type Options struct {
	Name        string
	Version     string
	Description string
	Metadata    map[string]string
	// Concurrency limits the requests answered at once; 0 means 32. Further requests are answered with Busy at once.
	Concurrency int
	// Timeout limits an answer; 0 means 10 s.
	Timeout time.Duration
	// Busy is the error for requests beyond Concurrency.
	Busy error
	// Logger records panics and requests that are not answered; nil discards.
	Logger *slog.Logger
}

// Endpoint is a subject with a function that answers requests on it. With a Queue, one member of the queue group
// answers each request; without one, every instance of the service does.
type Endpoint struct {
	Name    string
	Subject string
	Queue   string
	// Share returns whose a request is, by its subject, such as its session; nil means shared by all. Requests with
	// the same share leave as many places free as they use, so that a client that may query one session cannot block
	// the others.
	Share func(subject string) string
	// Answer returns the payload of the answer. If it returns an [Error], that determines the error answer; other
	// errors are answered with code 500 and their text. It is called concurrently.
	Answer func(ctx context.Context, r Request) ([]byte, error)
}

// Request is a received request.
type Request struct {
	Subject string
	Data    []byte
}

// Error is an error that determines the headers and payload of the error answer.
type Error interface {
	error
	Answer() (code int, reason string, payload []byte)
}

// server is a running service.
type server struct {
	o         Options
	nc        *nats.Conn
	identity  micro.ServiceIdentity
	started   time.Time
	endpoints []*endpoint
	places    *shares.Shares
	work      sync.WaitGroup
}

// endpoint is an [Endpoint] with its statistics.
type endpoint struct {
	Endpoint
	mu    sync.Mutex
	stats micro.EndpointStats
}

// Run serves until ctx ends. It then accepts no more requests, and returns once those in progress are answered.
func Run(ctx context.Context, nc *nats.Conn, o Options, endpoints ...Endpoint) error {
	o.Concurrency, o.Timeout = cmp.Or(o.Concurrency, 32), cmp.Or(o.Timeout, 10*time.Second)
	if o.Busy == nil {
		o.Busy = errors.New("too many concurrent requests")
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	s := &server{
		o: o, nc: nc, started: time.Now().UTC(), places: shares.New(o.Concurrency),
		identity: micro.ServiceIdentity{Name: o.Name, ID: rand.Text(), Version: o.Version, Metadata: o.Metadata},
	}
	for _, e := range endpoints {
		s.endpoints = append(s.endpoints, &endpoint{Endpoint: e, stats: micro.EndpointStats{
			Name: e.Name, Subject: e.Subject, QueueGroup: e.Queue,
		}})
	}
	serving, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	subs, err := s.subscribe(serving)
	if err == nil {
		<-ctx.Done()
	}
	for _, sub := range subs {
		_ = sub.Unsubscribe() // the client may retry unread requests with another instance
	}
	s.work.Wait()
	return err
}

func (s *server) subscribe(ctx context.Context) (subs []*nats.Subscription, err error) {
	add := func(subject, queue string, answer nats.MsgHandler) {
		if err != nil {
			return
		}
		var sub *nats.Subscription
		if sub, err = s.nc.QueueSubscribe(subject, queue, answer); err != nil {
			err = fmt.Errorf("service %s: subscribe %s: %w", s.o.Name, subject, err)
			return
		}
		subs = append(subs, sub)
	}
	for _, e := range s.endpoints {
		add(e.Subject, e.Queue, func(m *nats.Msg) { s.receive(ctx, e, m) })
	}
	for verb, describe := range map[micro.Verb]func() any{
		micro.PingVerb: s.ping, micro.InfoVerb: s.info, micro.StatsVerb: s.stats,
	} {
		for _, of := range [][2]string{{}, {s.o.Name}, {s.o.Name, s.identity.ID}} {
			subject, _ := micro.ControlSubject(verb, of[0], of[1]) // fails only for an unknown verb
			add(subject, "", func(m *nats.Msg) { s.describe(m, describe()) })
		}
	}
	if err == nil {
		err = s.nc.Flush()
	}
	return subs, err
}

// receive answers a request in its own goroutine if a place is free.
func (s *server) receive(ctx context.Context, e *endpoint, m *nats.Msg) {
	if !schemas.MayAnswer(m.Reply) {
		s.o.Logger.Debug("request not answered, reply subject is not an inbox", "subject", m.Subject)
		e.count(time.Now(), errors.New("the reply subject is not an inbox"))
		return
	}
	whose := ""
	if e.Share != nil {
		whose = e.Share(m.Subject)
	}
	if !s.places.Take(whose, 1) {
		e.count(time.Now(), s.o.Busy)
		s.refuse(m, s.o.Busy)
		return
	}
	s.work.Go(func() {
		defer s.places.Release(whose, 1)
		begun := time.Now()
		ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
		defer cancel()
		payload, err := s.call(ctx, e, m)
		if err == nil {
			err = m.Respond(payload)
		}
		if err != nil {
			s.refuse(m, err)
		}
		e.count(begun, err)
	})
}

// call answers a request. It converts a panic to an error, which must neither end the process nor leave the client
// waiting.
func (s *server) call(ctx context.Context, e *endpoint, m *nats.Msg) (payload []byte, err error) {
	defer func() {
		if p := recover(); p != nil {
			s.o.Logger.Error("panic while answering a request", "subject", m.Subject, "panic", p,
				"stack", string(debug.Stack()))
			err = errors.New("internal error of the service")
		}
	}()
	return e.Answer(ctx, Request{Subject: m.Subject, Data: m.Data})
}

// refuse answers with an error.
func (s *server) refuse(m *nats.Msg, err error) {
	code, reason, payload := 500, err.Error(), []byte(nil)
	var says Error
	if errors.As(err, &says) {
		code, reason, payload = says.Answer()
	}
	answer := nats.NewMsg(m.Reply)
	answer.Data = payload
	answer.Header.Set(micro.ErrorCodeHeader, strconv.Itoa(code))
	answer.Header.Set(micro.ErrorHeader, oneLine(reason))
	if err := s.nc.PublishMsg(answer); err != nil {
		s.o.Logger.Debug("request not answered", "subject", m.Subject, "err", err)
	}
}

// maxReason limits the header with the reason; the payload may contain more.
const maxReason = 512

// oneLine makes a text fit into a header.
func oneLine(s string) string {
	out := make([]rune, 0, min(len(s), maxReason))
	for _, r := range s {
		if len(out) == maxReason {
			break
		}
		if r < ' ' {
			r = ' '
		}
		out = append(out, r)
	}
	return string(out)
}
