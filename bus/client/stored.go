package client

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	firstTimeout   = time.Second     // of the first attempt of a request
	attemptTimeout = 5 * time.Second // of one request of a reader, which has no other limit
	minPause       = 20 * time.Millisecond
	maxPause       = time.Second
	batchMessages  = 64
	batchBytes     = 4 << 20
	readerIdle     = 30 * time.Second // after which the server forgets the consumer of a reader that went away
)

// errIncomplete says that an answer came in part. What is missing is asked for again.
var errIncomplete = errors.New("the answer is incomplete")

// storedMsg is a message as a stream holds it.
type storedMsg struct {
	subject string
	seq     uint64 // in the stream
	header  nats.Header
	data    []byte
}

// stored yields the messages of a stream on a subject that have a sequence above after, in order, as far as there are
// any now. It asks for a batch at a time, so that it holds no more however slow its reader is. An error is the last
// thing yielded; a caller that continues after a passing one asks for what is above the last message that it got.
func (c *Client) stored(ctx context.Context, stream, subject string, o jetstream.ConsumerConfig,
) iter.Seq2[storedMsg, error] {
	return func(yield func(storedMsg, error) bool) {
		if !c.nc.IsConnected() { // a request would be sent when it is, and leave a consumer that nobody reads
			yield(storedMsg{}, nats.ErrDisconnected)
			return
		}
		o.FilterSubject, o.AckPolicy, o.MemoryStorage = subject, jetstream.AckNonePolicy, true
		o.Replicas, o.InactiveThreshold = 1, readerIdle
		create, cancel := context.WithTimeout(ctx, attemptTimeout)
		consumer, err := c.js.CreateConsumer(create, stream, o)
		cancel()
		if err != nil {
			yield(storedMsg{}, c.explain(err, c.api+"CONSUMER.CREATE."+stream+"."))
			return
		}
		name := consumer.CachedInfo().Name
		// Without a reply subject there is nothing to wait for. If it gets lost, the server forgets the consumer later.
		defer func() { _ = c.nc.Publish(c.api+"CONSUMER.DELETE."+stream+"."+name, nil) }()
		r := &reader{c: c, consumer: consumer, left: consumer.CachedInfo().NumPending, yield: yield}
		for r.left > 0 {
			if err := r.batch(ctx); err != nil {
				if !errors.Is(err, errStop) {
					yield(storedMsg{}, c.explain(err, c.api+"CONSUMER.MSG.NEXT."+stream+"."))
				}
				return
			}
		}
	}
}

// after is a consumer of all messages above a sequence of the stream.
func after(seq uint64) jetstream.ConsumerConfig {
	if seq == 0 {
		return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	}
	return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1}
}

// reader reads one consumer to its end.
type reader struct {
	c        *Client
	consumer jetstream.Consumer
	seq      uint64 // the consumer's, of the last message
	left     uint64
	yield    func(storedMsg, error) bool
}

func (r *reader) batch(ctx context.Context) error {
	one, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	limit := max(batchBytes, 2*int(r.c.nc.MaxPayload()))
	batch, err := r.consumer.Fetch(int(min(r.left, batchMessages)), jetstream.FetchContext(one),
		jetstream.FetchMaxBytes(limit))
	if err != nil {
		return err
	}
	before := r.seq
	for msg := range batch.Messages() {
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != r.seq+1 {
			return fmt.Errorf("%w: delivery %d follows %d", errIncomplete, meta.Sequence.Consumer, r.seq)
		}
		r.seq, r.left = meta.Sequence.Consumer, meta.NumPending
		if !r.yield(storedMsg{msg.Subject(), meta.Sequence.Stream, msg.Headers(), msg.Data()}, nil) {
			return errStop
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case batch.Error() != nil:
		return batch.Error()
	case r.seq == before:
		return fmt.Errorf("%w: no message of %d came", errIncomplete, r.left)
	}
	return nil
}

// place is where a session's log has got to, 0 for both where there is none.
type place struct {
	stream uint64 // sequence of the last message in the stream
	seq    uint64 // of its last event
}

// head asks for the place of a session's last message.
func (c *Client) head(ctx context.Context, session string) (place, error) {
	if !c.nc.IsConnected() {
		return place{}, nats.ErrDisconnected
	}
	subject := c.api + "DIRECT.GET." + schemas.StreamEvents + "." + c.subjects.Event(session)
	m, err := c.nc.RequestWithContext(ctx, subject, nil)
	if err != nil {
		return place{}, c.explain(err, subject)
	}
	if m.Header.Get(jetstream.StreamHeader) == "" { // a status in place of a message
		switch status := m.Header.Get("Status"); status {
		case "404":
			return place{}, nil
		case "503":
			return place{}, nats.ErrNoResponders
		default:
			return place{}, fmt.Errorf("direct get: %s %s", status, m.Header.Get("Description"))
		}
	}
	stream, err := strconv.ParseUint(natsio.Added(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return place{}, fmt.Errorf("direct get: %s: %w", jetstream.SequenceHeader, err)
	}
	if !schemas.IsLog(session, m.Header, m.Data) {
		return c.headOf(ctx, session)
	}
	_, last, err := schemas.LogSpan(session, m.Header)
	if err != nil {
		return place{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return place{stream, last}, nil
}

// headOf returns the place of a session's last message where something follows it that is no part of the log. It reads
// the whole log.
func (c *Client) headOf(ctx context.Context, session string) (at place, err error) {
	for m, err := range c.stored(ctx, schemas.StreamEvents, c.subjects.Event(session), after(0)) {
		if err != nil {
			return place{}, err
		}
		at.stream = m.seq // as far as was read, which is farther than the message that was asked for
		if !schemas.IsLog(session, m.header, m.data) {
			continue
		}
		if _, at.seq, err = schemas.LogSpan(session, m.header); err != nil {
			return place{}, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return at, nil
}

// persist calls f until it succeeds, fails for good, or its time is over: ctx, or RequestTimeout. The first attempts
// have less time than later ones: that one is not permitted shows only when it has had no answer.
func (c *Client) persist(ctx context.Context, f func(ctx context.Context) error) error {
	all, cancel := context.WithTimeout(ctx, c.o.RequestTimeout)
	defer cancel()
	limit, last := firstTimeout, error(nil)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		one, cancel := context.WithTimeout(all, limit)
		err := f(one)
		cancel()
		limit *= 2
		if err == nil || !passing(err) {
			return err
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) { // which says less than what was before
			last = err
		}
		if all.Err() == nil {
			wait(all, pause)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case all.Err() != nil:
			return fmt.Errorf("given up after %s: %w", c.o.RequestTimeout, last)
		}
	}
}

// wait waits for d or the end of ctx.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
