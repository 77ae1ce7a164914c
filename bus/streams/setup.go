package streams

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
)

// Options configures [Setup]. A zero member leaves an existing stream as it is and gives a new one the default.
// Sizes are in bytes.
type Options struct {
	// Partitions of the inbox, default 64, at most 1024. The number cannot be changed while the stream exists.
	Partitions int
	// Replicas of every stream and bucket, default 1. More than one needs a cluster. Asked for more than there are,
	// existing streams get them; asked for fewer, they give an [IncompatibleError].
	Replicas int
	// DuplicateWindow is how long a repeated Nats-Msg-Id is recognised in commands, default two minutes.
	DuplicateWindow time.Duration
	// ToolDuplicateWindow is the same for tool calls, default ten minutes: longer than a server keeps the connection of a
	// runner that was suspended right when it sent a call (by default 2 pings, 2 minutes apart, have to stay unanswered).
	ToolDuplicateWindow time.Duration
	// MaxPayload is the largest message that streams take; the default is what the server takes.
	MaxPayload int32
	// EventMaxBytes is when the log is full and refuses events: it never drops old ones. By default it may fill what the
	// server has for streams.
	EventMaxBytes int64
	// CommandMaxBytes is when no more commands are taken until runners have caught up, default 1 GiB.
	CommandMaxBytes int64
	// ToolMaxBytes is when no more tool calls are taken until workers have caught up, default 256 MiB.
	ToolMaxBytes int64
	// UpdateMaxAge and UpdateMaxBytes bound the deltas kept for late viewers: default two minutes, 64 MiB. They are in
	// memory if there are no replicas.
	UpdateMaxAge   time.Duration
	UpdateMaxBytes int64
	// DeadMaxAge and DeadMaxBytes bound the dead letters, the oldest go first: default 30 days, 256 MiB.
	DeadMaxAge   time.Duration
	DeadMaxBytes int64
	// SnapshotMaxBytes and BlobMaxBytes bound the buckets of snapshots and big payloads. By default they may fill what
	// the server has for streams.
	SnapshotMaxBytes int64
	BlobMaxBytes     int64
}

// The defaults of [Options].
const (
	DefaultPartitions      = 64
	defaultDuplicateWindow = 2 * time.Minute
	defaultToolDuplicates  = 10 * time.Minute
	defaultCommandMaxBytes = 1 << 30
	defaultToolMaxBytes    = 256 << 20
	defaultUpdateMaxAge    = 2 * time.Minute
	defaultUpdateMaxBytes  = 64 << 20
	defaultDeadMaxAge      = 30 * 24 * time.Hour
	defaultDeadMaxBytes    = 256 << 20
	maxPartitions          = 1024
	setupAttempts          = 20
	setupTimeout           = time.Minute // for a cluster to elect its leaders, too
)

// IncompatibleError says that a stream exists with a setting that cannot be changed in place.
type IncompatibleError struct {
	Stream  string
	Setting string
	Have    string
	Want    string
	Hint    string // what to do about it
}

// Error names the stream, the setting, both values and the way out.
func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("stream %s has %s %s, but %s is needed: %s", e.Stream, e.Setting, e.Have, e.Want, e.Hint)
}

// Setup creates the streams and buckets below the connection's prefix, or brings existing ones up to date. It is
// idempotent, and any number of processes may call it at once. It waits for a cluster that has no leader yet, a minute
// at most. What an operator has set beyond what loopbus needs (placement, compression, description, ...) is kept. A
// stream that cannot be brought up to date is left alone and gives an [IncompatibleError]; the streams before it in the
// list may have been changed by then.
func Setup(ctx context.Context, c *bus.Conn, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	err := awaitLeader(ctx, never, func(ctx context.Context) error {
		_, err := c.JetStream().AccountInfo(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("streams: set up streams: ask the server about JetStream: %w", err)
	}
	specs := append(streamSpecs(c.Subjects(), o), bucketSpecs(o)...)
	// Refuse before changing anything: two deployments on one account should not half overwrite each other.
	for _, spec := range specs {
		if err := spec.inspect(ctx, c.JetStream()); err != nil {
			return fmt.Errorf("streams: set up streams: %w", err)
		}
	}
	for _, spec := range specs {
		if err := spec.apply(ctx, c.JetStream()); err != nil {
			return fmt.Errorf("streams: set up streams: %w", err)
		}
	}
	return nil
}

func (o Options) check() error {
	var errs []error
	if o.Partitions < 0 || o.Partitions > maxPartitions {
		errs = append(errs, fmt.Errorf("streams: partitions: %d is not in 0 to %d", o.Partitions, maxPartitions))
	}
	if o.Replicas < 0 || o.Replicas > 5 {
		errs = append(errs, fmt.Errorf("streams: replicas: %d is not in 0 to 5", o.Replicas))
	}
	for name, d := range map[string]time.Duration{
		"duplicate window": o.DuplicateWindow, "duplicate window of tool calls": o.ToolDuplicateWindow,
		"update max age": o.UpdateMaxAge, "dead letter max age": o.DeadMaxAge,
	} {
		if d != 0 && d < 100*time.Millisecond {
			errs = append(errs, fmt.Errorf("streams: %s: %s is less than 100ms", name, d))
		}
	}
	return errors.Join(errs...)
}

// inspect returns an error if the stream exists and cannot be brought up to date.
func (s spec) inspect(ctx context.Context, js jetstream.JetStream) error {
	return awaitLeader(ctx, never, func(ctx context.Context) error {
		have, err := js.Stream(ctx, s.want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("inspect %s: %w", s.want.Name, err)
		}
		return s.compatible(have.CachedInfo().Config)
	})
}

// apply creates or updates the stream. Another process may do the same at the same time, so it looks again whenever
// the server says that what it saw is no longer so, or that a server is missing which may just be starting.
func (s spec) apply(ctx context.Context, js jetstream.JetStream) error {
	raced := func(err error) bool {
		return errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) || errors.Is(err, jetstream.ErrStreamNotFound) ||
			natsio.HasCode(err, errCodeNoPeers)
	}
	err := awaitLeader(ctx, raced, func(ctx context.Context) error { return s.createOrUpdate(ctx, js) })
	if err != nil {
		return fmt.Errorf("%s: %w", s.want.Name, s.explain(err))
	}
	return nil
}

func (s spec) createOrUpdate(ctx context.Context, js jetstream.JetStream) error {
	stream, err := js.Stream(ctx, s.want.Name)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		if stream, err = s.createNew(ctx, js); err != nil {
			return err
		}
	}
	if err == nil {
		stream, err = s.update(ctx, js, stream)
	}
	if err != nil {
		return err
	}
	return s.verify(stream.CachedInfo().Config)
}

func (s spec) createNew(ctx context.Context, js jetstream.JetStream) (jetstream.Stream, error) {
	if s.create == nil {
		return js.CreateStream(ctx, s.want)
	}
	if err := s.create(ctx, js); err != nil {
		return nil, err
	}
	return js.Stream(ctx, s.want.Name)
}

func (s spec) update(ctx context.Context, js jetstream.JetStream, have jetstream.Stream) (jetstream.Stream,
	error) {
	now := have.CachedInfo().Config
	if err := s.compatible(now); err != nil {
		return nil, err
	}
	if s.misplaced(now) {
		if err := js.DeleteStream(ctx, now.Name); err != nil {
			return nil, err
		}
		return s.createNew(ctx, js)
	}
	next, changed := s.merge(now)
	if !changed {
		return have, nil
	}
	if idle := next.ConsumerLimits.InactiveThreshold; idle != now.ConsumerLimits.InactiveThreshold {
		if err := endIdle(ctx, have, idle); err != nil {
			return nil, err
		}
	}
	return js.UpdateStream(ctx, next)
}

// endIdle has the consumers of a stream end that nobody uses for longer: a stream takes no limit that a consumer of it
// breaks, and those that have none keep to none.
func endIdle(ctx context.Context, s jetstream.Stream, idle time.Duration) error {
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if t := info.Config.InactiveThreshold; t > 0 && t <= idle {
			continue
		}
		info.Config.InactiveThreshold = idle
		_, err := s.UpdateConsumer(ctx, info.Config)
		if err != nil && info.Config.DeliverSubject != "" { // which this call cannot change; who uses it makes it anew
			err = s.DeleteConsumer(ctx, info.Name)
		}
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) &&
			!errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
			return fmt.Errorf("limit of consumer %s: %w", info.Name, err)
		}
	}
	return list.Err()
}
