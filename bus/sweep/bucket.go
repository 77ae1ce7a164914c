package sweep

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// leaveBytes of garbage stay in a bucket: putting it in order costs about what it has of entries.
const leaveBytes = 64 << 10

// storedSize is about what a message takes in a stream.
func storedSize(m natsio.Stored) int64 {
	size := len(m.Subject) + len(m.Data) + 32
	for name, values := range m.Header {
		for _, v := range values {
			size += len(name) + len(v) + 4
		}
	}
	return int64(size)
}

// tidy puts a bucket in order that denies the deletion of messages, and that cannot be purged of subjects with DEL:
// what somebody has put is published again, and all that was before is purged (decision 135). It does so once half of
// what it has is garbage.
func (s *Sweeper) tidy(ctx context.Context, w *swept) error {
	if w.garbage <= leaveBytes {
		return nil
	}
	js := s.conn.JetStream()
	stream, err := js.Stream(ctx, w.name)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	state := stream.CachedInfo().State
	if w.garbage < int64(state.Bytes)/2 {
		return nil
	}
	var entries []natsio.Stored
	last, garbage := uint64(0), 0
	_, err = natsio.Scan(ctx, js, w.name, state.FirstSeq, state.LastSeq, func(m natsio.Stored) error {
		switch last = m.Sequence; {
		case !w.meant(m):
			garbage++
		case m.Header.Get(jetstream.MarkerReasonHeader) == "": // marks of the server are for those who follow now
			entries = append(entries, m)
		}
		return nil
	})
	if err != nil || last == 0 {
		return err
	}
	if err := s.putAgain(ctx, stream, entries); err != nil {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(last+1)); err != nil {
		return fmt.Errorf("purge up to %d: %w", last, err)
	}
	w.garbage = 0
	s.o.Logger.Warn("bucket put in order: a NATS server has answered there", "stream", w.name, "answers", garbage,
		"entries", len(entries))
	return nil
}

// putAgain publishes entries again, each unless its key has another one by now. They are a little larger so, and where
// a bucket that is full has no room for that its limit is wider meanwhile.
func (s *Sweeper) putAgain(ctx context.Context, stream jetstream.Stream, entries []natsio.Stored) (err error) {
	config := stream.CachedInfo().Config
	widened := false
	for _, m := range entries {
		err = s.again(ctx, m)
		if natsio.HasCode(err, codeStoreFailed) && !widened {
			wide := config
			for _, m := range entries {
				wide.MaxBytes += storedSize(m) + entryRoom
			}
			if _, err = s.conn.JetStream().UpdateStream(ctx, wide); err == nil {
				widened = true
				err = s.again(ctx, m)
			}
		}
		if err != nil {
			err = fmt.Errorf("put %s of sequence %d again: %w", m.Subject, m.Sequence, err)
			break
		}
	}
	if widened {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), narrowTimeout)
		defer cancel()
		if _, failed := s.conn.JetStream().UpdateStream(ctx, config); failed != nil {
			err = errors.Join(err, fmt.Errorf("set the limit to %d bytes again: %w", config.MaxBytes, failed))
		}
	}
	return err
}

const (
	entryRoom     = 1 << 10         // for what is added to an entry
	narrowTimeout = 5 * time.Second // for setting a limit back
)

// codeStoreFailed is how a stream refuses what its limits leave no room for.
const codeStoreFailed jetstream.ErrorCode = 10077

// codeConflictInFlight is how replicas refuse what another write of the subject is in flight for.
const codeConflictInFlight jetstream.ErrorCode = 10164

// again publishes a message of a stream again as it is, if it is still the newest of its subject. One that has a time
// to live gets what is left of it.
func (s *Sweeper) again(ctx context.Context, m natsio.Stored) error {
	js := s.conn.JetStream()
	msg := nats.NewMsg(m.Subject)
	if rest, ok := strings.CutPrefix(m.Subject, "$KV."); ok {
		bucket, key, _ := strings.Cut(rest, ".")
		msg.Subject = natsio.KeySubject(js, bucket, key)
	}
	msg.Data = m.Data
	for name, values := range m.Header {
		if name != jetstream.MsgIDHeader && name != jetstream.MsgTTLHeader && !strings.HasPrefix(name, "Nats-Expected-") {
			msg.Header[name] = values
		}
	}
	if ttl := natsio.TimeToLive(m.Header.Get(jetstream.MsgTTLHeader)); ttl > 0 {
		left := min(max(ttl-time.Since(m.Time), time.Second), ttl)
		msg.Header.Set(jetstream.MsgTTLHeader, left.Round(time.Second).String())
	}
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(m.Sequence, 10))
	_, err := js.PublishMsg(ctx, msg)
	if natsio.HasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, codeConflictInFlight) {
		return nil
	}
	return err
}
