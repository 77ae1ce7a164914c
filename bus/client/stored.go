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
	firstTimeout   = time.Second     // limit of a request's first attempt
	attemptTimeout = 5 * time.Second // limit of one request of a reader, which has no other deadline
	minPause       = 20 * time.Millisecond
	maxPause       = time.Second
	batchMessages  = 64
	batchBytes     = 4 << 20
	readerIdle     = 30 * time.Second // after which the server deletes the consumer of a reader that disappeared
)

// errIncomplete is the error of a batch that arrived in part. It is transient: the reader requests the rest again.
var errIncomplete = errors.New("the answer is incomplete")

// storedMsg is a message as a stream stores it.
type storedMsg struct {
	subject string
	seq     uint64 // in the stream
	header  nats.Header
	data    []byte
}

// connected returns nil if the client is connected, nats.ErrDisconnected while it reconnects, and
// nats.ErrConnectionClosed after it was closed.
func (c *Client) connected() error {
	switch {
	case c.nc.IsConnected():
		return nil
	case c.nc.IsClosed():
		return nats.ErrConnectionClosed
	}
	return nats.ErrDisconnected
}

// readStored yields the messages that a stream has now on a subject, in the order of the stream; o selects where to
// start. It requests one batch at a time, so memory stays bounded if the caller is slow. An error is yielded last.
// After a transient error the caller may call readStored again, starting after the last message that it received.
func (c *Client) readStored(ctx context.Context, stream, subject string, o jetstream.ConsumerConfig,
) iter.Seq2[storedMsg, error] {
	return func(yield func(storedMsg, error) bool) {
		if err := c.connected(); err != nil { // a buffered request would later create a consumer that nobody reads
			yield(storedMsg{}, err)
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
		info := consumer.CachedInfo()
		// No reply is needed: if the request is lost, the server deletes the consumer after readerIdle.
		defer func() { _ = c.nc.Publish(c.api+"CONSUMER.DELETE."+stream+"."+info.Name, nil) }()
		r := &reader{c: c, consumer: info, left: info.NumPending, yield: yield,
			ahead: ahead{of: c.ahead, caller: subject}}
		defer r.ahead.close()
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

// startAfter configures a consumer of all messages whose stream sequence is greater than seq.
func startAfter(seq uint64) jetstream.ConsumerConfig {
	if seq == 0 {
		return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverAllPolicy}
	}
	return jetstream.ConsumerConfig{DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: seq + 1}
}

// reader reads one consumer to its end.
type reader struct {
	c        *Client
	consumer *jetstream.ConsumerInfo
	ahead    ahead  // what was received and not yielded
	seq      uint64 // consumer sequence of the last message
	left     uint64 // messages still to be delivered
	yield    func(storedMsg, error) bool
}

func (r *reader) batch(ctx context.Context) error {
	messages, waiting, failed := r.fetch(ctx)
	defer r.ahead.keep(0)
	for i, msg := range messages {
		meta, err := msg.Metadata()
		if err != nil {
			return err
		}
		if meta.Sequence.Consumer != r.seq+1 {
			return fmt.Errorf("%w: received delivery %d after %d", errIncomplete, meta.Sequence.Consumer, r.seq)
		}
		r.seq, r.left = meta.Sequence.Consumer, meta.NumPending
		messages[i] = nil
		waiting -= msg.Size()
		r.ahead.keep(waiting)
		if !r.yield(storedMsg{msg.Subject, meta.Sequence.Stream, msg.Header, msg.Data}, nil) {
			return errStop
		}
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case failed != nil:
		return failed
	case len(messages) == 0:
		return fmt.Errorf("%w: received none of %d messages", errIncomplete, r.left)
	}
	return nil
}

// fetch receives a batch, of which there may be a part with an error, and its size. If others have in memory what there
// is room for, the batch is one message, which is yielded at once.
func (r *reader) fetch(ctx context.Context) (messages []*nats.Msg, size int, err error) {
	n, limit := int(min(r.left, batchMessages)), max(batchBytes, 2*int(r.c.nc.MaxPayload()))
	release, err := natsio.Reserve(ctx, r.c.nc, limit)
	if err != nil {
		return nil, 0, err
	}
	defer release()
	one, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	if !r.ahead.add(limit) {
		n = 1
	}
	for msg, failed := range natsio.Fetch(one, r.c.js, r.consumer, n, limit) {
		if err = failed; err == nil {
			messages, size = append(messages, msg), size+msg.Size()
		}
	}
	r.ahead.keep(size)
	return messages, size, err
}

// position is a position in a session's log: its end, or how far it was read. Both fields are 0 for an empty log.
type position struct {
	stream uint64 // sequence of the last message in the stream
	seq    uint64 // sequence of the last event in the session
}

// head returns the end of a session's log. It makes one request.
func (c *Client) head(ctx context.Context, session string) (position, error) {
	if err := c.connected(); err != nil {
		return position{}, err
	}
	subject := c.api + "DIRECT.GET." + schemas.StreamEvents + "." + c.subjects.Event(session)
	m, err := natsio.DirectGet(ctx, c.nc, subject, nil)
	if err != nil {
		return position{}, c.explain(err, subject)
	}
	if m.Header.Get(jetstream.StreamHeader) == "" { // a status instead of a message
		switch status := m.Header.Get("Status"); status {
		case "404":
			return position{}, nil
		case "503":
			return position{}, nats.ErrNoResponders
		default:
			return position{}, fmt.Errorf("direct get: %s %s", status, m.Header.Get("Description"))
		}
	}
	stream, err := strconv.ParseUint(natsio.Added(m.Header, jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return position{}, fmt.Errorf("direct get: %s: %w", jetstream.SequenceHeader, err)
	}
	if !schemas.IsLog(session, m.Header, m.Data) {
		return c.scanHead(ctx, session)
	}
	_, last, err := schemas.LogSpan(session, m.Header)
	if err != nil {
		return position{}, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return position{stream, last}, nil
}

// scanHead returns the end of a session's log if a foreign message is stored after it. It reads the whole log.
func (c *Client) scanHead(ctx context.Context, session string) (at position, err error) {
	for m, err := range c.readStored(ctx, schemas.StreamEvents, c.subjects.Event(session), startAfter(0)) {
		if err != nil {
			return position{}, err
		}
		at.stream = m.seq // the end of what was read, foreign messages included
		if !schemas.IsLog(session, m.header, m.data) {
			continue
		}
		if _, at.seq, err = schemas.LogSpan(session, m.header); err != nil {
			return position{}, fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return at, nil
}
