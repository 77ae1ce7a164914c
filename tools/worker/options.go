package worker

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
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
	DefaultStopTimeout = 30 * time.Second

	DefaultMaxResultBytes = 512 << 10

	// DefaultAckWait is how long after a worker's last sign of life its call is given to another one.
	DefaultAckWait = 30 * time.Second

	// answerGrace is how long the answers of cancelled calls may take when the worker stops.
	answerGrace = 10 * time.Second
)

// Options configures [New].
type Options struct {
	// ID names the worker, a subject token. No two live workers may have the same.
	ID string
	// NC and JS are the connection. It stays the caller's and has to outlive Run.
	NC *nats.Conn
	JS jetstream.JetStream
	// Subjects is the grammar in use.
	Subjects schemas.Subjects
	// Tools are the tools served, each under its own name.
	Tools []tools.Tool

	// Subscriber returns what delivers the calls of a tool from the consumer that [Consumer] describes, subscribed to
	// [Topic]. It decides how many calls are handled at once, keeps the server informed while one is, and keeps the
	// contexts of its messages alive for at least StopTimeout after it is closed. The worker closes it.
	Subscriber func(tool string) (message.Subscriber, error)
	// Raw returns the JetStream message behind one that a Subscriber delivered.
	Raw func(*message.Message) (jetstream.Msg, bool)
	// Middleware is put around the handling of each call, the first outermost: this is where dead letters belong.
	Middleware []message.HandlerMiddleware

	// AnnounceTTL is how long announcements outlive a worker that died, in whole seconds, default 30 s. They are
	// renewed three times as often.
	AnnounceTTL time.Duration
	// UpdateEvery is the least time between two updates of a call, default 25 ms. A later one replaces those that wait.
	UpdateEvery time.Duration
	// MaxResultBytes is the longest answer, as JSON, that runners take; what does not fit is left out with a notice.
	// Default 512 KiB, as the runner's own default, and never more than the server takes as one message.
	MaxResultBytes int
	// StopTimeout is how long calls may go on when the worker stops, default 30 s.
	StopTimeout time.Duration
	// Logger is told of calls that could not be answered at once; nil discards. Arguments and results are not logged.
	Logger *slog.Logger
	// Registerer takes the metrics of the calls; nil means none.
	Registerer prometheus.Registerer
}

// check fills in defaults and returns all mistakes.
func (o *Options) check() error {
	var errs []error
	errs = append(errs, schemas.CheckToken("worker id", o.ID))
	if o.NC == nil || o.JS == nil {
		errs = append(errs, errors.New("no connection given"))
	}
	if o.Subscriber == nil || o.Raw == nil {
		errs = append(errs, errors.New("no subscriber given"))
	}
	if len(o.Tools) == 0 {
		errs = append(errs, errors.New("no tools given"))
	}
	seen := map[string]bool{}
	for _, tool := range o.Tools {
		errs = append(errs, schemas.CheckToken("tool", tool.Name))
		if seen[tool.Name] {
			errs = append(errs, fmt.Errorf("tool %q given twice", tool.Name))
		}
		if tool.Execute == nil {
			errs = append(errs, fmt.Errorf("tool %q cannot be executed", tool.Name))
		}
		seen[tool.Name] = true
	}
	o.AnnounceTTL = orDefault(o.AnnounceTTL, DefaultAnnounceTTL)
	if o.AnnounceTTL < time.Second || o.AnnounceTTL%time.Second != 0 {
		errs = append(errs, fmt.Errorf("announce TTL %s is not in whole seconds", o.AnnounceTTL))
	}
	if o.MaxResultBytes <= 0 {
		o.MaxResultBytes = DefaultMaxResultBytes
	}
	o.UpdateEvery = orDefault(o.UpdateEvery, DefaultUpdateEvery)
	o.StopTimeout = orDefault(o.StopTimeout, DefaultStopTimeout)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return errors.Join(errs...)
}

func orDefault(d, otherwise time.Duration) time.Duration {
	if d <= 0 {
		return otherwise
	}
	return d
}

// Topic is the subject that the calls of a tool match.
func Topic(s schemas.Subjects, tool string) string { return s.Tool(tool, "*", "*") }

// Consumer describes the durable consumer on AGENT_TOOL that all workers of a tool share. A call is given to another
// worker when the one that has it has given no sign of life for ackWait; 0 means [DefaultAckWait].
func Consumer(s schemas.Subjects, tool string, ackWait time.Duration) jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       tool,
		Description:   "calls of the tool " + tool,
		FilterSubject: Topic(s, tool),
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       orDefault(ackWait, DefaultAckWait),
		MaxDeliver:    -1, // giving up is the dead letter middleware's business: a limit here would strand the call
		MaxAckPending: -1, // as many as there are workers
	}
}
