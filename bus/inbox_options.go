package bus

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/schemas"
)

// InboxOptions configures [NewInbox]. Only RunnerID is needed.
type InboxOptions struct {
	// RunnerID names this process among the live runners: a single subject token, used by nobody else.
	RunnerID string
	// Takeover is the longest that the commands of a runner that is killed or suspended wait until they are delivered
	// elsewhere, default 10 s, at least [MinTakeover] and at most [MaxTakeover]. The next three follow from it where they are
	// not given, and run at the same time. All runners of a deployment should have the same.
	Takeover time.Duration
	// AckWait is how long after its last sign of life a command in hand is delivered again, default three fifths of
	// Takeover. Signs are given three times as often.
	AckWait time.Duration
	// PinnedTTL is how long a partition stays with a runner that does not pull any more, default two fifths of Takeover.
	// It pulls twice as often.
	PinnedTTL time.Duration
	// MemberTTL is how long a runner counts as live after its last renewal, in whole seconds, default two fifths of
	// Takeover; the server may be a second late. Renewals are four times as often.
	MemberTTL time.Duration
	// HandoverWait is how long a partition that another runner should read now is kept until none of its commands is in
	// hand, so that a model call under way need not be repeated elsewhere; default 5 s.
	HandoverWait time.Duration
	// TakeoverWait is how long the first commands of a partition wait that another live runner may have read until now,
	// so that what that one gives back comes before them; default 100 ms.
	TakeoverWait time.Duration
	// MaxDeliver is after how many deliveries a command that fails is given up: it is rejected and kept in AGENT_DEAD;
	// default 10.
	MaxDeliver int
	// MaxPending bounds the unsettled messages of one partition, over all runners, default 1024.
	MaxPending int
	// MaxInHand bounds the messages that this process has asked for and not settled, over all partitions, default 4096.
	MaxInHand int
	// MaxCommandBytes is the largest command taken, default 512 KiB.
	MaxCommandBytes int
	// RejectTimeout bounds one try to reject a message, default 30 s. Giving a command up may abort the run that it began:
	// that takes as long as tools are given to stop, and must fit.
	RejectTimeout time.Duration
	// StopTimeout is how long Run waits for handlers once it was told to stop, default 10 s.
	StopTimeout time.Duration
	// Logger is told of partitions taken and left, and of what goes wrong; nil discards.
	Logger *slog.Logger
	// Registerer gets Watermill's metrics, prefixed loopbus_inbox; nil means no metrics.
	Registerer prometheus.Registerer
	// Middleware is put around the inbox's own, the first outermost.
	Middleware []message.HandlerMiddleware
}

// Between these a takeover may be. In less than the first a runner could be taken for dead that was suspended for a second,
// which is what it takes a driver to notice that it was; and a session should not lie longer than the second.
const (
	MinTakeover     = 6 * time.Second
	DefaultTakeover = 10 * time.Second
	MaxTakeover     = 10 * time.Minute
)

const (
	defaultMaxPending      = 1024
	defaultMaxInHand       = 4096
	defaultMaxDeliver      = 10
	defaultMaxCommandBytes = 512 << 10

	handoverTimeout = 2 * time.Second // of the requests that hand a partition over
	cutOffTimeout   = time.Second     // between the end of a handler's context and giving it up
)

func (o InboxOptions) withDefaults() (InboxOptions, error) {
	o.Takeover = or(o.Takeover, DefaultTakeover)
	o.AckWait = or(o.AckWait, o.Takeover*3/5)
	o.PinnedTTL = or(o.PinnedTTL, o.Takeover*2/5)
	o.MemberTTL = or(o.MemberTTL, (o.Takeover * 2 / 5).Truncate(time.Second))
	o.HandoverWait = or(o.HandoverWait, 5*time.Second)
	o.TakeoverWait = or(o.TakeoverWait, 100*time.Millisecond)
	o.MaxDeliver = or(o.MaxDeliver, defaultMaxDeliver)
	o.MaxPending = or(o.MaxPending, defaultMaxPending)
	o.MaxInHand = or(o.MaxInHand, defaultMaxInHand)
	o.MaxCommandBytes = or(o.MaxCommandBytes, defaultMaxCommandBytes)
	o.RejectTimeout = or(o.RejectTimeout, 30*time.Second)
	o.StopTimeout = or(o.StopTimeout, 10*time.Second)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = o.Logger.With("runner", o.RunnerID)
	return o, o.check()
}

func (o InboxOptions) check() error {
	var errs []error
	if err := schemas.CheckToken("runner id", o.RunnerID); err != nil {
		errs = append(errs, fmt.Errorf("bus: inbox: %w", err))
	}
	if err := CheckTakeover(o.Takeover); err != nil {
		errs = append(errs, fmt.Errorf("bus: inbox: takeover %w", err))
	}
	if o.MemberTTL < time.Second || o.MemberTTL%time.Second != 0 {
		errs = append(errs, fmt.Errorf("bus: inbox: member TTL %s is not in whole seconds", o.MemberTTL))
	}
	for name, d := range map[string]time.Duration{"ack wait": o.AckWait, "pinned TTL": o.PinnedTTL} {
		if d < minInboxWait {
			errs = append(errs, fmt.Errorf("bus: inbox: %s %s is less than %s", name, d, minInboxWait))
		}
	}
	for name, n := range map[string]int{"max deliver": o.MaxDeliver, "max pending": o.MaxPending,
		"max in hand": o.MaxInHand, "max command bytes": o.MaxCommandBytes} {
		if n < 1 {
			errs = append(errs, fmt.Errorf("bus: inbox: %s %d is less than 1", name, n))
		}
	}
	return errors.Join(errs...)
}

// CheckTakeover says what is wrong with a value of [InboxOptions.Takeover], nil if nothing is.
func CheckTakeover(d time.Duration) error {
	if d < MinTakeover || d > MaxTakeover {
		return fmt.Errorf("%s is not between %s and %s: in less a runner that was held up for a moment would lose its sessions, "+
			"in more they would lie that long when it is killed", d, MinTakeover, MaxTakeover)
	}
	return nil
}

// minInboxWait keeps signs of life and pull requests from becoming a load of their own.
const minInboxWait = 300 * time.Millisecond
