package eventstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// One answer to a batch request.
const (
	batchEvents = 128
	batchBytes  = 8 << 20
)

// records yields the messages on a literal subject that have a stream sequence above after and up to upTo, which must
// be that of a message on the subject, or 0 for none. It gets them in batches. An error is the last thing yielded.
func (s *Store) records(ctx context.Context, subject string, after, upTo uint64) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		if after >= upTo {
			return
		}
		r := &batchReader{s: s, subject: subject, last: after, upTo: upTo}
		if err := r.open(); err != nil {
			yield(record{}, err)
			return
		}
		defer r.close()
		if err := r.run(ctx, func(rec record) bool { return yield(rec, nil) }); err != nil {
			yield(record{}, err)
		}
	}
}

// batchReader reads a subject batch by batch, and asks again from where it is when an answer gets lost.
type batchReader struct {
	s       *Store
	subject string
	last    uint64 // stream sequence of the last message yielded
	upTo    uint64

	inbox string
	reply string // of the request under way: what is left of an older one is dropped
	tries int
	sub   *nats.Subscription
	ch    chan *nats.Msg
}

var (
	errStop  = errors.New("reader has enough")
	errAgain = errors.New("answer incomplete")
)

func (r *batchReader) open() (err error) {
	r.inbox = r.s.nc.NewInbox() + "."
	r.ch = make(chan *nats.Msg, batchEvents+1) // a whole answer fits: nothing is dropped however slow the reader
	r.sub, err = r.s.nc.ChanSubscribe(r.inbox+"*", r.ch)
	return err
}

func (r *batchReader) close() { _ = r.sub.Unsubscribe() }

func (r *batchReader) run(ctx context.Context, yield func(record) bool) error {
	deadline := time.Now().Add(r.s.o.OutcomeTimeout)
	pause := minPause
	for r.last < r.upTo {
		before := r.last
		err := r.batch(ctx, yield)
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
		case err == nil, errors.Is(err, errAgain), passing(err):
			// Nothing came although there must be something: lost, or the replica that answers is behind.
		default:
			return err
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("read from %d to %d of the stream: %w", r.last+1, r.upTo, endedEarly(err))
		}
		r.s.pause(ctx, pause)
		pause = min(2*pause, maxPause)
	}
	return nil
}

func endedEarly(err error) error {
	if err == nil {
		return fmt.Errorf("%w: the log ends before the head it had", ErrDamaged)
	}
	return err
}

// batch makes one request and yields what comes.
func (r *batchReader) batch(ctx context.Context, yield func(record) bool) error {
	changed := r.s.watch.changed()
	if err := r.request(); err != nil {
		return err
	}
	var inBatch uint64 // stream sequence of the message before in this answer
	for {
		m, err := r.receive(ctx, changed)
		if err != nil {
			return err
		}
		switch err := status(m); {
		case errors.Is(err, errEndOfBatch), errors.Is(err, errNotFound):
			return nil
		case err != nil:
			return err
		}
		rec, err := recordOf(m)
		if err != nil {
			return err
		}
		if first(m.Header, jetstream.LastSequenceHeader) != strconv.FormatUint(inBatch, 10) {
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
	}
}

func (r *batchReader) request() error {
	body, err := json.Marshal(getRequest{Seq: r.last + 1, NextFor: r.subject, Batch: batchEvents, MaxBytes: batchBytes})
	if err != nil {
		return err
	}
	r.tries++
	r.reply = r.inbox + strconv.Itoa(r.tries)
	return r.s.nc.PublishRequest(r.s.directSubject(), r.reply, body)
}

// receive returns the next message of the answer under way.
func (r *batchReader) receive(ctx context.Context, changed <-chan struct{}) (*nats.Msg, error) {
	for {
		select {
		case m := <-r.ch:
			if m.Subject == r.reply {
				return m, nil
			}
			continue
		default:
		}
		t := time.NewTimer(r.s.o.AppendTimeout)
		select {
		case m := <-r.ch:
			t.Stop()
			if m.Subject == r.reply {
				return m, nil
			}
		case <-changed:
			t.Stop()
			return nil, errAgain
		case <-t.C:
			return nil, nats.ErrTimeout
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		}
	}
}
