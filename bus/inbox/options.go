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

// Options configures [New]. Only RunnerID is needed.
type Options struct {
	// RunnerID names this process among the live runners: a single subject token, used by nobody else.
	RunnerID string
	// Takeover is how long after its last heartbeat a runner is taken for dead and the others take its partitions over,
	// default [DefaultTakeover], at least [MinTakeover] and at most [MaxTakeover]. A runner whose process has ended is
	// noticed sooner, by its closed connection. All runners of a deployment should have the same.
	Takeover time.Duration
	// HandoverWait is how long a partition that another runner should read now is kept until none of its messages is in
	// flight, so that a model call under way need not be repeated elsewhere; default 5 s.
	HandoverWait time.Duration
	// MaxDeliver is after how many attempts a command that fails, or whose runners are lost, is given up: it is rejected
	// and kept in AGENT_DEAD; default 10.
	MaxDeliver int
	// MaxInFlight bounds the messages that this process has received and not settled; the others wait on the server
	// (backpressure), where nobody can see what presses. Default 32768.
	MaxInFlight int
	// MaxSessions is how many sessions this process works on at once; the others wait here, see package admission. Half
	// as many again may begin beside them so that nobody waits long, and twice as many for what presses. Default
	// [DefaultMaxSessions].
	MaxSessions int
	// RejectTimeout bounds one try to reject a message, default 30 s. Giving a command up may abort the run that it
	// began: that takes as long as tools are given to stop, and must fit.
	RejectTimeout time.Duration
	// StopTimeout is how long Run waits for handlers once it was asked to stop, default 10 s.
	StopTimeout time.Duration
	// Outcome returns the newest stored event that says what has become of a command; found is false where the session's
	// log does not know the command. It is asked for senders who want to be told. Nil tells nobody.
	Outcome func(ctx context.Context, session, command string) (e schemas.Event, found bool, err error)
	// Logger records partitions taken over and left, and of what goes wrong; nil discards.
	Logger *slog.Logger
	// Registerer gets the metrics loopbus_inbox_*; nil means no metrics.
	Registerer prometheus.Registerer
}

// Between these Takeover may be. In less than the first a runner that is held up for a moment on a busy machine would
// lose its partitions every few seconds; and a session should not lie longer than the last.
const (
	MinTakeover     = 300 * time.Millisecond
	DefaultTakeover = time.Second
	MaxTakeover     = 10 * time.Minute
)

// DefaultMaxSessions is for sessions that wait for models most of the time: each takes some 100 KiB, and what it has
// said.
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

// CheckTakeover says what is wrong with a value of [Options.Takeover], nil if nothing is.
func CheckTakeover(d time.Duration) error {
	if d < MinTakeover || d > MaxTakeover {
		return fmt.Errorf("%s is not between %s and %s: in less a runner that is held up for a moment would lose its "+
			"partitions, in more its sessions would lie that long when it is suspended", d, MinTakeover, MaxTakeover)
	}
	return nil
}
