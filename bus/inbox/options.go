package inbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/schemas"
)

// Options configure [New]. Only RunnerID is required.
type Options struct {
	// RunnerID names this process among the live runners: a single subject token, used by nobody else.
	RunnerID string
	// Takeover is how long after its last heartbeat a runner is considered dead and the others take over its
	// partitions, default [DefaultTakeover], at least [MinTakeover] and at most [MaxTakeover]. A runner whose process
	// has ended is noticed sooner, by its closed connection. All runners of a deployment should have the same value.
	Takeover time.Duration
	// HandoverWait is how long this process keeps a partition that another runner should read, if messages of the
	// partition are in flight: a model call under way then need not be repeated elsewhere. Default 5 s.
	HandoverWait time.Duration
	// MaxDeliver is how often a command may fail, or its runner be lost, before it is given up: it is then rejected and
	// kept in AGENT_DEAD. Default 10.
	MaxDeliver int
	// MaxInFlight bounds the messages that this process has received and not settled. The others wait on the server
	// (backpressure), in order: there urgent ones have no priority. Default 32768.
	MaxInFlight int
	// MaxSessions is how many sessions this process works on at once; the others wait here (see package admission).
	// Half as many again may start so that none waits long, and there is room for twice as many while urgent messages
	// wait. Default [DefaultMaxSessions].
	MaxSessions int
	// RejectTimeout bounds one attempt to reject a message, default 30 s. A rejection may abort the run that the
	// command started, so it must be longer than tools get to stop.
	RejectTimeout time.Duration
	// StopTimeout is how long Run waits for deliveries after its context has ended, default 10 s.
	StopTimeout time.Duration
	// Outcome returns the newest stored event about a command, if this process has it in memory, and does not block.
	// The inbox sends that event to senders that request the outcome. If it is nil, no sender gets an outcome.
	Outcome func(session, command string) (e schemas.Event, found bool)
	// Search returns that event of a command that Outcome has not found; found is false if the session's log does not
	// know the command. It is called beside the deliveries, for at most 64 commands at once, of which a session has its
	// share; the senders of further ones get no outcome. If it is nil, nothing is searched for.
	Search func(ctx context.Context, session, command string) (e schemas.Event, found bool, err error)
	// Logger logs takeovers and failures; nil discards.
	Logger *slog.Logger
	// Registerer receives the metrics loopbus_inbox_*; nil means no metrics.
	Registerer prometheus.Registerer
}

// The bounds of Takeover. With less than MinTakeover, a runner that is held up for a moment on a busy machine would
// lose its partitions every few seconds. A session of a suspended runner waits as long as Takeover.
const (
	MinTakeover     = 300 * time.Millisecond
	DefaultTakeover = time.Second
	MaxTakeover     = 10 * time.Minute
)

// DefaultMaxSessions suits sessions that wait for models most of the time: each takes some 100 KiB, and its messages.
const DefaultMaxSessions = 1024

const (
	defaultHandoverWait = 5 * time.Second
	defaultMaxInFlight  = 32 << 10
	defaultMaxDeliver   = 10
)

func (o Options) withDefaults() (Options, error) {
	o.Takeover = cmp.Or(o.Takeover, DefaultTakeover)
	o.HandoverWait = cmp.Or(o.HandoverWait, defaultHandoverWait)
	o.MaxDeliver = cmp.Or(o.MaxDeliver, defaultMaxDeliver)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, defaultMaxInFlight)
	o.MaxSessions = cmp.Or(o.MaxSessions, DefaultMaxSessions)
	o.RejectTimeout = cmp.Or(o.RejectTimeout, 30*time.Second)
	o.StopTimeout = cmp.Or(o.StopTimeout, 10*time.Second)
	o.Registerer = cmp.Or(o.Registerer, prometheus.Registerer(prometheus.NewRegistry()))
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	o.Logger = o.Logger.With("runner", o.RunnerID)
	return o, o.check()
}

func (o Options) check() error {
	var errs []error
	if err := schemas.CheckToken("runner id", o.RunnerID); err != nil {
		errs = append(errs, fmt.Errorf("inbox: %w", err))
	}
	if err := CheckTakeover(o.Takeover); err != nil {
		errs = append(errs, fmt.Errorf("inbox: takeover %w", err))
	}
	for name, n := range map[string]int{
		"max deliver": o.MaxDeliver, "max in flight": o.MaxInFlight, "max sessions": o.MaxSessions,
	} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("inbox: %s %d is less than 1", name, n))
		}
	}
	return errors.Join(errs...)
}

// CheckTakeover returns an error that says why a value of [Options.Takeover] is not valid, or nil.
func CheckTakeover(d time.Duration) error {
	if d < MinTakeover || d > MaxTakeover {
		return fmt.Errorf("%s is not between %s and %s: in less a runner that is held up for a moment would lose its "+
			"partitions, in more its sessions would lie that long when it is suspended", d, MinTakeover, MaxTakeover)
	}
	return nil
}
