package registry

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/headerlimit"
	"github.com/loopbus/loopbus/bus/natsio"
)

// rewatchWait is the pause before a broken watch is restarted.
const rewatchWait = 500 * time.Millisecond

// entry is a revision of a key.
type entry struct {
	key      string
	value    []byte
	revision uint64
	deleted  bool
	foreign  bool // an answer of a server, which no client has put; see [codec.IsAnswer]
	rollup   bool // it replaced all earlier revisions of the key
}

// watchBucket follows a key-value bucket. It returns nil when ctx ends, and when the connection was lost and is back.
// It passes all stored entries to load, those of a key in their order, and then every change to next.
//
// Entries with a time to live expire by the clock of this process, in expiring: the buckets that untrusted clients may
// write do not allow roll-ups, so the server cannot store markers there for expired entries (decision 59). An entry
// that was loaded expires too late, by the age that it had at that time.
func watchBucket(ctx context.Context, c *bus.Conn, bucket string, expiring *expiry, load func(all []entry),
	next func(e entry)) error {
	push, err := natsio.NewPush(ctx, c.JetStream(), "KV_"+bucket, "$KV."+bucket+".>", 1)
	if natsio.NoConsumersLeft(err) {
		return pollBucket(ctx, c, bucket, expiring, load, next)
	}
	if err != nil {
		return err
	}
	defer push.Close()
	w := &watch{bucket: bucket, expiring: expiring, load: load, next: next, left: push.Stored}
	w.loadIf(w.left == 0)
	expiring.reset()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-push.Reconnected():
			return nil
		case <-push.Silence():
			if err := push.Silent(); err != nil {
				return fmt.Errorf("registry: watch of %s: %w", bucket, err)
			}
		case <-expiring.due():
			if expiring.passed(push.Waiting()) {
				w.expire()
			}
		case m := <-push.Messages:
			md, err := push.Received(m)
			if err != nil {
				return fmt.Errorf("registry: watch of %s: %w", bucket, err)
			}
			w.receive(m, md)
			if expiring.processed() {
				w.expire()
			}
		}
	}
}

// watch is the state of watchBucket. Only one goroutine uses it.
type watch struct {
	bucket   string
	expiring *expiry
	load     func(all []entry)
	next     func(e entry)

	left   uint64 // entries that were stored at the beginning
	all    []entry
	loaded bool
}

// receive processes a message of the bucket's stream, or a heartbeat, which has no metadata: no more entries come, even
// if there were more at the beginning.
func (w *watch) receive(m *nats.Msg, md *nats.MsgMetadata) {
	if md == nil {
		w.loadIf(true)
		return
	}
	e, ttl, ok := entryOf(natsio.Stored{Subject: m.Subject, Sequence: md.Sequence.Stream, Header: m.Header,
		Data: m.Data}, w.bucket)
	if ok && !e.foreign { // a foreign entry does not change when the entry before it expires
		w.expiring.set(e, ttl)
	}
	switch {
	case ok && w.loaded:
		w.next(e)
	case ok:
		w.all = append(w.all, e)
	}
	w.loadIf(uint64(len(w.all)) >= w.left || md.NumPending == 0) // fewer arrive if some expired
}

// loadIf passes the stored entries to load, if all are there.
func (w *watch) loadIf(complete bool) {
	if complete && !w.loaded {
		w.load(w.all)
		w.all, w.loaded = nil, true
	}
}

// expire removes the entries whose time has passed.
func (w *watch) expire() {
	for _, e := range w.expiring.expired(time.Now()) {
		w.next(e)
	}
}

// entryOf decodes a message of a bucket's stream. ttl is 0 if the entry does not expire. ok is false if the message is
// not an entry.
func entryOf(m natsio.Stored, bucket string) (e entry, ttl time.Duration, ok bool) {
	key, ok := strings.CutPrefix(m.Subject, "$KV."+bucket+".")
	if !ok || m.Unreadable || headerlimit.LeftOut(m.Header) || !natsio.Literal(key) {
		return e, 0, false
	}
	e = entry{key: key, value: m.Data, revision: m.Sequence, rollup: m.Header.Get(jetstream.MsgRollup) != ""}
	e.foreign = codec.IsAnswer(m.Header, m.Data)
	e.deleted = !e.foreign && natsio.Removed(m.Header)
	e.foreign = e.foreign || !e.deleted && len(m.Data) == 0 // a status message, or an empty acknowledgement
	if !e.deleted && !e.foreign {
		ttl = natsio.TimeToLive(m.Header.Get(jetstream.MsgTTLHeader))
	}
	return e, ttl, true
}
