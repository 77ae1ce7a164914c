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
	// DefaultBegunAfter is longer than most calls take, and shorter than people wait before they wonder.
	DefaultBegunAfter  = 2 * time.Second
	DefaultStopTimeout = 30 * time.Second
	// DefaultAbandonAfter is longer than any tool of ours needs to stop.
	DefaultAbandonAfter = 10 * time.Second

	DefaultMaxResultBytes = 512 << 10

	DefaultConcurrency = 8

	// DefaultAckWait is how long after a worker's last heartbeat its call is given to another one: three heartbeats may
	// be late or lost, and a worker that was killed is noticed within five seconds.
	DefaultAckWait = 4 * time.Second
	// MinAckWait is the shortest that a program should offer: with less, a busy machine is taken for a dead one.
	MinAckWait = time.Second

	// answerGrace is how long the answers of cancelled calls may take when the worker stops.
	answerGrace = 10 * time.Second
)

// Options configures [New].
type Options struct {
	// ID names the worker, a subject token. No two live workers may have the same.
	ID string
	// NC and JS are the connection. It stays the caller's and has to outlive Run. JS may be left out.
	NC *nats.Conn
	JS jetstream.JetStream
	// Subjects is the grammar in use.
	Subjects schemas.Subjects
	// Tools are the tools served. Several may have one name if they differ in version.
	Tools []tools.Tool
	// Workspace is where the tools work that name no workspace of their own: only sessions of that workspace call them.
	// Empty is none, and then only sessions of none do.
	Workspace string

	// Concurrency is how many calls of each tool are executed at once, default 8. Each is pulled when there is a free
	// slot for it.
	Concurrency int
	// AckWait is how long after a worker's last heartbeat its call is given to another one, default [DefaultAckWait]. A
	// consumer that has another one is updated; where the server does not permit that, it keeps its own. All workers of
	// a tool share the consumer, and should have the same: the one that starts last decides.
	AckWait time.Duration

	// Announced, if not nil, is called once, when the tools have been announced for the first time.
	Announced func()
	// AnnounceTTL is how long announcements outlive a worker that died, in whole seconds, default 30 s. They are
	// renewed three times as often.
	AnnounceTTL time.Duration
	// Resources, if not nil, returns what the directory of the tools has for prompts. It is called before each
	// announcement, so that changes are announced with the next one. The worker fills in workspace, itself, and since
	// when.
	Resources func(ctx context.Context) (schemas.Resources, error)
	// UpdateEvery is the least time between two updates of a call, default 25 ms. A later one replaces those that wait.
	UpdateEvery time.Duration
	// BegunAfter is how long a call is executed without an update before an empty one says that it has begun, default 2 s.
	BegunAfter time.Duration
	// MaxResultBytes is the longest answer, as JSON, that runners take; what does not fit is left out with a notice.
	// Default 512 KiB, as the runner's own default, and never more than the server takes as one message. A tool's own
	// MaxResultBytes may be less.
	MaxResultBytes int
	// StopTimeout is how long calls may go on when the worker stops, default 30 s.
	StopTimeout time.Duration
	// AbandonAfter is how long a tool may go on after it was asked to stop, because it took too long or was cancelled,
	// before its call is answered without it; default 10 s.
	AbandonAfter time.Duration
	// Logger records calls that could not be answered at once; nil discards. Arguments and results are not logged.
	Logger *slog.Logger
	// Registerer takes the metrics of the calls; nil means none. Workers of one process may share it.
	Registerer prometheus.Registerer
	// Trace, if not nil, begins a span of a call that is about to be executed: the tool gets the context that it returns,
	// and the function is called with the call's outcome.
	Trace func(ctx context.Context, req schemas.ToolRequest) (context.Context, func(outcome string))
}

// check fills in defaults and returns all mistakes.
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

// checkTools puts the tools into their workspace and returns what is wrong with them.
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

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// topic is the subject that the calls of a queue match.
func topic(s schemas.Subjects, queue string) string { return s.Tool(queue, "*", "*") }

// Consumer describes the durable consumer on AGENT_TOOL that all workers of a queue share. A call is given to another
// worker when the one that has it has sent no heartbeat for ackWait; 0 means [DefaultAckWait].
func Consumer(s schemas.Subjects, queue string, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       queue,
		Description:   "calls of the tool " + queue,
		FilterSubject: topic(s, queue),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       orDefault(ackWait, DefaultAckWait),
		MaxDeliver:    -1, // giving up is the dead letter middleware's business: a limit here would strand the call
		MaxAckPending: -1, // as many as there are workers
	}
}
