package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// The defaults of [Options].
const (
	DefaultAnnounceTTL = 30 * time.Second
	DefaultUpdateEvery = 25 * time.Millisecond
	// DefaultBegunAfter is longer than most calls take, and short enough for a person who watches the session.
	DefaultBegunAfter  = 2 * time.Second
	DefaultStopTimeout = 30 * time.Second
	// DefaultAbandonAfter is longer than any built-in tool needs to stop.
	DefaultAbandonAfter = 10 * time.Second

	DefaultMaxResultBytes = 512 << 10

	DefaultConcurrency = 8

	// DefaultAckWait is how long after a worker's last heartbeat its call is redelivered to another worker. Three
	// heartbeats may be late or lost, and the loss of a worker is detected within five seconds.
	DefaultAckWait = 4 * time.Second
	// MinAckWait is the minimum that a program should accept: with less, a worker on a busy machine counts as lost.
	MinAckWait = time.Second

	// answerGrace is how long a worker that stops tries to store the answers of the calls that it has cancelled.
	answerGrace = 10 * time.Second
)

// Options configures [New].
type Options struct {
	// ID is the id of the worker, a subject token. No two live workers may have the same id.
	ID string
	// NC and JS are the connection. The caller owns it and must not close it before Run returns. A nil JS is created
	// from NC.
	NC *nats.Conn
	JS jetstream.JetStream
	// Subjects is the subject grammar.
	Subjects schemas.Subjects
	// Tools are the tools to serve. Two tools may have the same name if their versions differ.
	Tools []tools.Tool
	// Workspace is the workspace of the tools that have none of their own. Only sessions of that workspace call them.
	// If it is empty, only sessions without a workspace do.
	Workspace string

	// Concurrency is how many calls of each tool are executed at once, default 8. The worker pulls a call only when a
	// slot is free.
	Concurrency int
	// AckWait is how long after a worker's last heartbeat its call is redelivered to another worker, default
	// [DefaultAckWait]. The worker updates a consumer with a different ack wait; without the permission to update it,
	// the consumer keeps its own. All workers of a tool share the consumer and should have the same AckWait: the worker
	// that starts last sets it.
	AckWait time.Duration

	// Announced, if not nil, is called once, when the tools have been announced for the first time.
	Announced func()
	// AnnounceTTL is how long announcements outlive a worker that was killed, in whole seconds, default 30 s. The
	// worker renews them three times within that time.
	AnnounceTTL time.Duration
	// Resources, if not nil, returns the resources for prompts that the directory of the tools has. It is called before
	// each announcement, so that a change is announced with the next one. The worker sets the fields Workspace, Worker
	// and Since.
	Resources func(ctx context.Context) (schemas.Resources, error)
	// UpdateEvery is the minimum time between two updates of a call, default 25 ms. A newer update replaces one that
	// still waits.
	UpdateEvery time.Duration
	// BegunAfter is how long a call may run without an update. Then the worker publishes an empty update, which reports
	// that the call has started. Default 2 s.
	BegunAfter time.Duration
	// MaxResultBytes is the maximum size of an answer as JSON. The worker replaces content that does not fit by a
	// notice. The default is 512 KiB, the default limit of a runner; the maximum payload of the server is a limit, too.
	// A tool's own MaxResultBytes may be less.
	MaxResultBytes int
	// StopTimeout is how long running calls may continue when the worker stops, default 30 s.
	StopTimeout time.Duration
	// Life is the life of what executes the calls, if that is longer than the worker's: StopTimeout begins when both have
	// ended. Nil means that the worker's end counts.
	Life context.Context
	// AbandonAfter is how long a tool may continue after its context has ended, because of a time limit or a
	// cancellation. Then the worker abandons it and answers the call with an error. Default 10 s.
	AbandonAfter time.Duration
	// Logger is for state changes of the worker and for calls that fail; nil discards. Arguments and results are not
	// logged.
	Logger *slog.Logger
	// Registerer registers the metrics of the calls; nil means none. Workers of one process may share it.
	Registerer prometheus.Registerer
	// Trace, if not nil, starts a span for a call before it is executed. The tool gets the context that Trace returns.
	// The function that Trace returns is called with the call's outcome.
	Trace func(ctx context.Context, req schemas.ToolRequest) (context.Context, func(outcome string))
}

// check sets the defaults and returns all mistakes in one error.
func (o *Options) check() error {
	var errs []error
	errs = append(errs, schemas.CheckToken("worker id", o.ID))
	if o.NC == nil {
		errs = append(errs, errors.New("no connection given"))
	} else if o.JS == nil {
		js, err := jetstream.New(o.NC)
		o.JS, errs = js, append(errs, err)
	}
	if len(o.Tools) == 0 {
		errs = append(errs, errors.New("no tools given"))
	}
	errs = append(errs, o.checkTools()...)
	o.AnnounceTTL = orDefault(o.AnnounceTTL, DefaultAnnounceTTL)
	if o.AnnounceTTL < time.Second || o.AnnounceTTL%time.Second != 0 {
		errs = append(errs, fmt.Errorf("announce TTL %s is not in whole seconds", o.AnnounceTTL))
	}
	if o.MaxResultBytes <= 0 {
		o.MaxResultBytes = DefaultMaxResultBytes
	}
	if o.Concurrency <= 0 {
		o.Concurrency = DefaultConcurrency
	}
	o.AckWait = orDefault(o.AckWait, DefaultAckWait)
	o.UpdateEvery = orDefault(o.UpdateEvery, DefaultUpdateEvery)
	o.BegunAfter = orDefault(o.BegunAfter, DefaultBegunAfter)
	o.StopTimeout = orDefault(o.StopTimeout, DefaultStopTimeout)
	o.AbandonAfter = orDefault(o.AbandonAfter, DefaultAbandonAfter)
	if o.Trace == nil {
		o.Trace = func(ctx context.Context, _ schemas.ToolRequest) (context.Context, func(string)) {
			return ctx, func(string) {}
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

// checkTools sets the workspace of the tools and returns their mistakes.
func (o *Options) checkTools() (errs []error) {
	o.Tools = slices.Clone(o.Tools)
	seen := map[schemas.ToolQueue]bool{}
	for i := range o.Tools {
		tool := &o.Tools[i]
		if tool.Workspace == "" {
			tool.Workspace = o.Workspace
		}
		queue := tool.Queue()
		errs = append(errs, queue.Check())
		if seen[queue] {
			errs = append(errs, fmt.Errorf("tool %q given twice", queue))
		}
		if tool.Execute == nil {
			errs = append(errs, fmt.Errorf("tool %q cannot be executed", queue))
		}
		seen[queue] = true
	}
	return errs
}

func orDefault(d, defaultValue time.Duration) time.Duration {
	if d <= 0 {
		return defaultValue
	}
	return d
}

// topic returns the subject filter of the calls of a queue.
func topic(s schemas.Subjects, queue string) string { return s.Tool(queue, "*", "*") }

// Consumer returns the configuration of the durable consumer on AGENT_TOOL that all workers of a queue share. A call is
// redelivered to another worker if its worker sends no heartbeat for ackWait; 0 means [DefaultAckWait].
func Consumer(s schemas.Subjects, queue string, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       queue,
		Description:   "calls of the tool " + queue,
		FilterSubject: topic(s, queue),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       orDefault(ackWait, DefaultAckWait),
		MaxDeliver:    -1, // deadLetters limits deliveries; beyond a limit of the consumer a call would stay unanswered
		MaxAckPending: -1, // the slots of the workers are the limit
	}
}
