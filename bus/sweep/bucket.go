package sweep

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// leaveBytes of garbage may stay in a bucket: tidying it costs about as much as writing all its entries.
const leaveBytes = 64 << 10

// storedSize estimates the bytes of a message in a stream.
func storedSize(m natsio.Stored) int64 {
	size := len(m.Subject) + len(m.Data) + 32
	for name, values := range m.Header {
		for _, v := range values {
			size += len(name) + len(v) + 4
		}
	}
	return int64(size)
}

// tidy removes the garbage from a bucket once half of the bucket is garbage. Buckets deny the deletion of single
// messages, and subjects with the character DEL cannot be purged. So tidy publishes all entries again and purges
// everything before them (decision 135).
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
	entries, last, garbage, err := s.entries(ctx, w, state)
	if err != nil || last == 0 {
		return err
	}
	if garbage < int64(state.Bytes)/2 { // another runner has removed some
		w.garbage = garbage
		return nil
	}
	if err := s.putAgain(ctx, w, stream, entries); err != nil {
		return err
	}
	if err := stream.Purge(ctx, jetstream.WithPurgeSequence(last+1)); err != nil {
		return fmt.Errorf("purge up to %d: %w", last, err)
	}
	w.garbage = 0
	s.o.Logger.Warn("bucket tidied: a NATS server had answered there", "stream", w.name, "bytes", garbage,
		"entries", len(entries))
	return nil
}

// entry is the newest message that a client has put at a key of a bucket.
type entry struct {
	natsio.Stored
	tail uint64 // sequence of the key's newest message; if the bucket keeps revisions that may be a server's answer
}

// entries reads a bucket. It returns the entries, oldest first, the sequence of the last message read, 0 if there is
// none, and the size of the garbage in bytes.
func (s *Sweeper) entries(ctx context.Context, w *swept, state jetstream.StreamState) (all []*entry, last uint64,
	garbage int64, err error) {
	keys := map[string]*entry{}
	_, err = natsio.Scan(ctx, s.conn.JetStream(), w.name, state.FirstSeq, state.LastSeq, func(m natsio.Stored) error {
		last = m.Sequence
		switch e := keys[m.Subject]; {
		case w.meant(m):
			keys[m.Subject] = &entry{m, m.Sequence}
		case e != nil:
			e.tail = m.Sequence
			fallthrough
		default:
			garbage += storedSize(m)
		}
		return nil
	})
	for _, e := range keys {
		if e.Header.Get(jetstream.MarkerReasonHeader) == "" { // only current watchers need the server's markers
			all = append(all, e)
		}
	}
	slices.SortFunc(all, func(a, b *entry) int { return cmp.Compare(a.Sequence, b.Sequence) })
	return all, last, garbage, err
}

// putAgain publishes entries again, each unless its key has a newer one. They get a little larger. If the bucket is
// full, its limit is raised until all are published.
func (s *Sweeper) putAgain(ctx context.Context, w *swept, stream jetstream.Stream, entries []*entry) (err error) {
	config := stream.CachedInfo().Config
	revisions := config.MaxMsgsPerSubject != 1
	widened := false
	for _, e := range entries {
		err = s.again(ctx, w, e, revisions)
		if natsio.NoRoom(err) && !widened {
			wide := config
			for _, e := range entries {
				wide.MaxBytes += storedSize(e.Stored) + entryRoom
			}
			if _, err = s.conn.JetStream().UpdateStream(ctx, wide); err == nil {
				widened = true
				err = s.again(ctx, w, e, revisions)
			}
		}
		if err != nil {
			err = fmt.Errorf("put %s of sequence %d again: %w", e.Subject, e.Sequence, err)
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
	entryRoom     = 1 << 10         // bytes for what is added to an entry
	narrowTimeout = 5 * time.Second // for restoring a limit
)

// again publishes an entry again, without instructions to the server, unless its key has a newer one. It sets the rest
// of its time to live. If
// the bucket keeps revisions the entry replaces all messages of the key, also answers that have arrived in the
// meantime.
func (s *Sweeper) again(ctx context.Context, w *swept, e *entry, revisions bool) error {
	js := s.conn.JetStream()
	msg := nats.NewMsg(e.Subject)
	if rest, ok := strings.CutPrefix(e.Subject, "$KV."); ok {
		bucket, key, _ := strings.Cut(rest, ".")
		msg.Subject = natsio.KeySubject(js, bucket, key)
	}
	msg.Data = e.Data
	for name, values := range e.Header {
		if !natsio.Instructs(name) {
			msg.Header[name] = values
		}
	}
	if ttl := natsio.TimeToLive(e.Header.Get(jetstream.MsgTTLHeader)); ttl > 0 {
		left := min(max(ttl-time.Since(e.Time), time.Second), ttl)
		msg.Header.Set(jetstream.MsgTTLHeader, left.Round(time.Second).String())
	}
	if revisions {
		msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	}
	for {
		msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(e.tail, 10))
		_, err := js.PublishMsg(ctx, msg)
		if !natsio.Outdated(err) {
			return err
		}
		if !revisions {
			return nil // a newer message has replaced it
		}
		before := e.tail
		if newer, err := s.newer(ctx, w, e); newer || err != nil {
			return err
		}
		if e.tail == before && !natsio.Wait(ctx, natsio.RetryWait) { // another write of the key is in flight
			return context.Cause(ctx)
		}
	}
}

// newer reads the messages behind an entry, and reports whether a client has put one of them.
func (s *Sweeper) newer(ctx context.Context, w *swept, e *entry) (found bool, err error) {
	_, err = natsio.ScanSubject(ctx, s.conn.JetStream(), w.name, e.Subject, e.tail+1, math.MaxUint64,
		func(m natsio.Stored) error {
			e.tail = m.Sequence
			found = found || w.meant(m)
			return nil
		})
	return found, err
}
