package eventstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Limits of one answer to a batch request. The first one is smaller: most logs end in it, and more of them are read at
// once ([natsio.Reserve]).
const (
	batchEvents = 128
	firstBytes  = 512 << 10
	batchBytes  = 4 << 20
)

// between reads in batches, by direct gets or by consumers.
func (s *Store) between(ctx context.Context, session string, after, upTo uint64) recordSeq {
	return func(yield func(record, error) bool) {
		if after >= upTo {
			return
		}
		r := &batchReader{s: s, subject: s.o.Subjects.Event(session), last: after, upTo: upTo, limit: firstBytes}
		if err := r.run(ctx, func(rec record) bool { return yield(rec, nil) }); err != nil {
			yield(record{}, err)
		}
	}
}

// batchReader reads a subject batch by batch. If an answer is lost it requests the rest again.
type batchReader struct {
	s       *Store
	subject string
	last    uint64 // stream sequence of the last message yielded
	limit   int    // bytes of the next answer
	upTo    uint64
}

var (
	errStop  = errors.New("reader stopped")
	errAgain = errors.New("answer incomplete")
)

func (r *batchReader) run(ctx context.Context, yield func(record) bool) error {
	read := r.batch
	if r.s.o.ByConsumer {
		read = r.consume
	}
	deadline := time.Now().Add(r.s.o.OutcomeTimeout)
	pause := minPause
	for r.last < r.upTo {
		before := r.last
		err := read(ctx, yield)
		if r.last > before {
			deadline, pause = time.Now().Add(r.s.o.OutcomeTimeout), minPause
		}
		switch {
		case errors.Is(err, errStop):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil && r.last > before:
			continue
		case err == nil && r.deleted(ctx):
			return ErrDeleted
		case err == nil, errors.Is(err, errAgain), natsio.Passing(err):
			// There must be more: the answer was lost, or the replica that answered is behind.
		default:
			return err
		}
		if time.Now().After(deadline) {
			if err == nil {
				err = fmt.Errorf("%w: the log ends before the head it had", ErrDamaged)
			}
			return fmt.Errorf("read from %d to %d of the stream: %w", r.last+1, r.upTo, err)
		}
		r.s.pause(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return nil
}

// ErrDeleted is wrapped by the error of reading a log that is deleted in the meantime.
var ErrDeleted = errors.New("log was deleted while it was read")

// deleted reports whether the last message to read no longer exists. It returns false for a reader without the
// permission to request that message alone.
func (r *batchReader) deleted(ctx context.Context) bool {
	_, found, err := r.s.once(ctx, getRequest{Seq: r.upTo})
	return err == nil && !found
}

// batch makes one request and yields the messages of the answer.
func (r *batchReader) batch(ctx context.Context, yield func(record) bool) error {
	var inBatch uint64 // stream sequence of the message before in this answer
	req := getRequest{Seq: r.last + 1, NextFor: r.subject, Batch: batchEvents, MaxBytes: r.limit}
	r.limit = batchBytes
	return r.s.batchGet(ctx, req, func(rec record) error {
		if natsio.Added(rec.header, jetstream.LastSequenceHeader) != strconv.FormatUint(inBatch, 10) {
			return errAgain
		}
		inBatch = rec.stream
		if rec.stream > r.upTo {
			return errStop
		}
		r.last = rec.stream
		if !yield(rec) || rec.stream == r.upTo {
			return errStop
		}
		return nil
	})
}

// readerIdle is how long the server keeps a consumer whose reader was lost.
const readerIdle = 30 * time.Second

// consume yields the messages that a new consumer of the subject delivers. It deletes the consumer afterwards.
func (r *batchReader) consume(ctx context.Context, yield func(record) bool) error {
	create, cancel := context.WithTimeout(ctx, r.s.o.AppendTimeout)
	defer cancel()
	made, err := r.s.js.CreateConsumer(create, schemas.StreamEvents, jetstream.ConsumerConfig{
		FilterSubject: r.subject, DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: r.last + 1,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: readerIdle})
	if err != nil {
		return err
	}
	consumer := made.CachedInfo()
	defer func() { // without a reply subject, so that no goroutine waits for the answer
		subject := r.s.api + "CONSUMER.DELETE." + schemas.StreamEvents + "." + consumer.Name
		_ = r.s.nc.Publish(subject, nil)
	}()
	delivered, left := uint64(0), consumer.NumPending
	for left > 0 {
		if left, err = r.fetch(ctx, consumer, int(min(left, batchEvents)), &delivered, yield); err != nil {
			return err
		}
	}
	return nil
}

// fetch yields up to n messages of a consumer, and returns how many more the consumer has. delivered counts the
// consumer's deliveries.
func (r *batchReader) fetch(ctx context.Context, consumer *jetstream.ConsumerInfo, n int, delivered *uint64,
	yield func(record) bool) (left uint64, err error) {
	limit := max(r.limit, 2*int(r.s.nc.MaxPayload()))
	r.limit = batchBytes
	release, err := natsio.Reserve(ctx, r.s.nc, limit)
	if err != nil {
		return 0, err
	}
	defer release()
	one, cancel := context.WithTimeout(ctx, r.s.o.AppendTimeout)
	defer cancel()
	messages := make([]*nats.Msg, 0, n)
	for m, failed := range natsio.Fetch(one, r.s.js, consumer, n, limit) {
		if err = failed; err == nil {
			messages = append(messages, m)
		}
	}
	release()
	before := *delivered
	for _, m := range messages {
		at, err := m.Metadata()
		if err != nil {
			return 0, err
		}
		if at.Sequence.Consumer != *delivered+1 {
			return 0, errAgain
		}
		*delivered, left = at.Sequence.Consumer, at.NumPending
		if at.Sequence.Stream > r.upTo {
			return 0, errStop
		}
		r.last = at.Sequence.Stream
		if !yield(record{stream: r.last, header: m.Header, payload: m.Data}) || r.last == r.upTo {
			return 0, errStop
		}
	}
	if *delivered == before {
		return 0, errors.Join(errAgain, err)
	}
	return left, err
}

// batchGet makes one request and calls each for every message of the answer, until each fails. It has received the
// answer before: each may make requests, too.
func (s *Store) batchGet(ctx context.Context, req getRequest, each func(rec record) error) error {
	answer, failed := s.answer(ctx, req)
	for _, m := range answer {
		rec, err := recordOf(m)
		if err == nil {
			err = each(rec)
		}
		if err != nil {
			return err
		}
	}
	return failed
}

// answer makes one request and returns the messages of the answer, also with an error.
func (s *Store) answer(ctx context.Context, req getRequest) (messages []*nats.Msg, err error) {
	release, err := natsio.Reserve(ctx, s.nc, cmp.Or(req.MaxBytes, batchBytes))
	if err != nil {
		return nil, err
	}
	defer release()
	changed := s.watch.changed()
	inbox, ch := natsio.NewInbox(s.nc), make(chan *nats.Msg, batchEvents+1) // has room for a whole answer
	sub, err := s.nc.ChanSubscribe(inbox, ch)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	if err := s.nc.PublishRequest(s.directSubject(), inbox, req.body()); err != nil {
		return nil, err
	}
	for {
		m, err := s.receive(ctx, ch, changed)
		if err != nil {
			return messages, err
		}
		switch err := status(m); {
		case errors.Is(err, errEndOfBatch), errors.Is(err, errNotFound):
			return messages, nil
		case err != nil:
			return messages, err
		}
		messages = append(messages, m)
	}
}

// receive returns the next message of an answer. A message that has arrived already is returned even if the connection
// was lost since.
func (s *Store) receive(ctx context.Context, ch <-chan *nats.Msg, changed <-chan struct{}) (*nats.Msg, error) {
	select {
	case m := <-ch:
		return m, nil
	default:
	}
	t := time.NewTimer(s.o.AppendTimeout)
	defer t.Stop()
	select {
	case m := <-ch:
		return m, nil
	case <-changed:
		return nil, errAgain
	case <-t.C:
		return nil, nats.ErrTimeout
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
