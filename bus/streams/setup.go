package streams

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
)

// Options configures [Setup]. Sizes are in bytes. A zero member leaves an existing stream as it is and gives a new one
// the default. Other limits of existing streams may be changed with the nats command: Setup keeps them.
type Options struct {
	// Partitions of the inbox, default 64, at most 1024. The number cannot be changed while the stream exists.
	Partitions int
	// Replicas of every stream and bucket, default 1. More than one needs a cluster. Existing streams with fewer replicas
	// are scaled up; existing streams with more are an [IncompatibleError].
	Replicas int
	// DuplicateWindow is how long a repeated Nats-Msg-Id is recognised in commands, default two minutes.
	DuplicateWindow time.Duration
	// EventMaxBytes is the size at which the log refuses events; it never drops old ones. By default it may use all the
	// space that the server has for streams.
	EventMaxBytes int64
	// CommandMaxBytes is the size at which the inbox refuses commands until runners have caught up, default 1 GiB.
	CommandMaxBytes int64
	// ToolMaxBytes is the size at which tool calls are refused until workers have caught up, default 256 MiB.
	ToolMaxBytes int64
	// BlobMaxBytes is the largest size of the object store of payloads. By default it may use all the space that the
	// server has for streams.
	BlobMaxBytes int64

	maxMessage int32 // bytes, set by Setup
}

// The defaults of [Options], and limits without an option.
const (
	DefaultPartitions      = 64
	defaultDuplicateWindow = 2 * time.Minute
	defaultCommandMaxBytes = 1 << 30
	defaultToolMaxBytes    = 256 << 20
	maxPartitions          = 1024
	setupAttempts          = 20
	setupTimeout           = time.Minute // long enough for a cluster to elect its leaders

	// minMaxMessage is the size of the largest message in a stream, or the server's max_payload if that is more. Clients
	// cannot publish more, but an answer of the JetStream API may be longer. A client that directs it to a stream would
	// have a message stored there that consumers with a limit of bytes never get, nor anything behind it. A timer is
	// small, and the inbox takes no larger one from its source.
	minMaxMessage = 8 << 20
	maxTimer      = 64 << 10

	// toolDuplicateWindow is how long a repeated Nats-Msg-Id is recognised in tool calls. It is longer than a server keeps
	// the connection of a runner that was suspended just when it sent a call: by default 2 pings, 2 minutes apart, have to
	// stay unanswered.
	toolDuplicateWindow = 10 * time.Minute
	// The updates of updateAge and updateBytes are kept for late viewers, in memory if there are no replicas.
	updateAge   = 2 * time.Minute
	updateBytes = 64 << 20
	// Dead letters beyond deadAge and deadBytes are dropped, the oldest first.
	deadAge   = 30 * 24 * time.Hour
	deadBytes = 256 << 20
)

// IncompatibleError is the error of an existing stream with a setting that cannot be changed in place.
type IncompatibleError struct {
	Stream  string
	Setting string
	Have    string
	Want    string
	Hint    string // what to do about it
}

// Error names the stream, the setting, both values and what to do.
func (e *IncompatibleError) Error() string {
	return fmt.Sprintf("stream %s has %s %s, but %s is needed: %s", e.Stream, e.Setting, e.Have, e.Want, e.Hint)
}

// Setup creates the streams and buckets below the connection's prefix, or brings existing ones up to date. It is
// idempotent, and any number of processes may call it at once. If a cluster has no leader yet, Setup waits for it, a
// minute at most. It keeps settings of an operator that loopbus does not need (placement, compression, description,
// ...). A stream that cannot be brought up to date is not changed and gives an [IncompatibleError]; the streams before
// it in the list may have been changed by then. The limit of commands per subject is not set on an existing inbox with
// a subject that has more than half of it; a later Setup sets it.
func Setup(ctx context.Context, c *bus.Conn, o Options) error {
	if err := o.check(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, setupTimeout)
	defer cancel()
	err := awaitLeader(ctx, func(ctx context.Context) error {
		_, err := c.JetStream().AccountInfo(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("streams: set up streams: ask the server about JetStream: %w", err)
	}
	o.maxMessage = int32(max(minMaxMessage, c.NATS().MaxPayload()))
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
	if d := o.DuplicateWindow; d != 0 && d < 100*time.Millisecond {
		errs = append(errs, fmt.Errorf("streams: duplicate window: %s is less than 100ms", d))
	}
	return errors.Join(errs...)
}

// inspect returns an error if the stream exists and cannot be brought up to date.
func (s spec) inspect(ctx context.Context, js jetstream.JetStream) error {
	return awaitLeader(ctx, func(ctx context.Context) error {
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

// apply creates or updates the stream.
func (s spec) apply(ctx context.Context, js jetstream.JetStream) error {
	err := awaitLeader(ctx, func(ctx context.Context) error { return s.createOrUpdate(ctx, js) })
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
		stream, err := js.CreateStream(ctx, s.want)
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process has just created it, with another name
			return js.Stream(ctx, s.want.Name)
		}
		return stream, err
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
	if s.want.Metadata != nil && unused(have.CachedInfo()) {
		changed = nameInbox(&next, have.CachedInfo().Created) || changed
	}
	if next.MaxMsgsPerSubject != now.MaxMsgsPerSubject && s.want.Retention == jetstream.WorkQueuePolicy {
		fits, err := fitsSubjects(ctx, have, next.MaxMsgsPerSubject)
		if err != nil {
			return nil, err
		}
		if !fits {
			next.MaxMsgsPerSubject, next.DiscardNewPerSubject = now.MaxMsgsPerSubject, now.DiscardNewPerSubject
			changed = !reflect.DeepEqual(now, next)
		}
	}
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

// endIdle gives the consumers of a stream an inactivity limit of at most idle. The server refuses a limit for the
// stream that an existing consumer exceeds, and does not apply it to consumers without a limit.
func endIdle(ctx context.Context, s jetstream.Stream, idle time.Duration) error {
	list := s.ListConsumers(ctx)
	for info := range list.Info() {
		if t := info.Config.InactiveThreshold; t > 0 && t <= idle {
			continue
		}
		info.Config.InactiveThreshold = idle
		_, err := s.UpdateConsumer(ctx, info.Config)
		if err != nil && info.Config.DeliverSubject != "" { // which UpdateConsumer cannot change; its user creates it again
			err = s.DeleteConsumer(ctx, info.Name)
		}
		if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) &&
			!errors.Is(err, jetstream.ErrConsumerDoesNotExist) {
			return fmt.Errorf("limit of consumer %s: %w", info.Name, err)
		}
	}
	return list.Err()
}

// fitsSubjects reports whether each subject of a stream has at most half the messages that a limit allows. When a
// server gets the limit it drops the oldest messages of a subject beyond it. The other half is room for messages that
// arrive before the limit is set.
func fitsSubjects(ctx context.Context, have jetstream.Stream, limit int64) (bool, error) {
	info, err := have.Info(ctx, jetstream.WithSubjectFilter(">"))
	if err != nil {
		return false, err
	}
	for _, n := range info.State.Subjects {
		if n > uint64(limit)/2 {
			return false, nil
		}
	}
	return true, nil
}
