package registry

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
)

const (
	// rejoinWait is how long to wait before a watch that broke is begun again.
	rejoinWait = 500 * time.Millisecond
	// waitingMessages is how many changes of a bucket may wait for their reader. One that is lost makes a gap, after
	// which the client's library asks for the rest anew.
	waitingMessages = 4096

	headerOperation = "KV-Operation" // of the key-value buckets of NATS; absent from what is put
)

// entry is what a key of a bucket has become.
type entry struct {
	key      string
	value    []byte
	revision uint64
	deleted  bool
	foreign  bool // nobody put it: a server answered there, see [codec.IsAnswer]
	alone    bool // it has taken the place of all that the key had
}

// watchBucket follows a key-value bucket until ctx ends, which is no error. First it gives load everything that is
// there, of each key the oldest first, and then every change to next. What has a time to live ends by the clock of this
// process, with ends: the buckets that untrusted users write allow no roll-ups, so the server cannot mark there what
// has expired (decision 59). It ends too late by the age that it had when it was loaded.
func watchBucket(ctx context.Context, c *bus.Conn, bucket string, ends *expiry, load func(all []entry),
	next func(e entry)) error {
	messages := make(chan *nats.Msg, waitingMessages)
	sub, err := subscribeBucket(ctx, c, bucket, messages)
	if natsio.NoConsumersLeft(err) {
		return pollBucket(ctx, c, bucket, ends, load, next)
	}
	if err != nil {
		return err
	}
	defer func() { _ = sub.Unsubscribe() }()
	left, err := sub.InitialConsumerPending()
	if err != nil {
		return err
	}
	var all []entry
	loaded := left == 0
	if loaded {
		load(nil)
	}
	closed := sub.StatusChanged(nats.SubscriptionClosed)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-closed:
			return errors.New("registry: watch of " + bucket + " ended")
		case <-ends.due():
			for _, e := range ends.over(time.Now()) {
				next(e)
			}
		case m := <-messages:
			md, err := m.Metadata()
			if err != nil {
				continue // a heartbeat
			}
			e, ttl, ok := entryOf(natsio.Stored{Subject: m.Subject, Sequence: md.Sequence.Stream, Header: m.Header,
				Data: m.Data}, bucket)
			if ok && !e.foreign { // what was there before ends when it would have
				ends.set(e, ttl)
			}
			switch {
			case ok && loaded:
				next(e)
			case ok:
				all = append(all, e)
			}
			if !loaded && (uint64(len(all)) >= left || md.NumPending == 0) { // less have come where some have ended
				load(all)
				all, loaded = nil, true
			}
		}
	}
}

// subscribeBucket begins to receive what the bucket has of each key, and then its changes. It is done as the key-value
// API of nats.go does it, which does not tell what has a time to live.
func subscribeBucket(ctx context.Context, c *bus.Conn, bucket string, messages chan *nats.Msg) (*nats.Subscription,
	error) {
	prefix := strings.TrimSuffix(natsio.APIPrefix(c.JetStream()), ".")
	js, err := c.NATS().JetStream(nats.APIPrefix(prefix))
	if err != nil {
		return nil, err
	}
	return js.ChanSubscribe("$KV."+bucket+".>", messages, nats.BindStream("KV_"+bucket), nats.OrderedConsumer(),
		nats.DeliverAll(), nats.Context(ctx))
}

// entryOf reads a message of a bucket's stream; ttl is 0 for one that has no end.
func entryOf(m natsio.Stored, bucket string) (e entry, ttl time.Duration, ok bool) {
	key, ok := strings.CutPrefix(m.Subject, "$KV."+bucket+".")
	if !ok || m.Unreadable || strings.Contains(key, "\x7f") { // what a watch is not given is no entry
		return e, 0, false
	}
	e = entry{key: key, value: m.Data, revision: m.Sequence, alone: m.Header.Get(jetstream.MsgRollup) != ""}
	e.foreign = codec.IsAnswer(m.Header, m.Data)
	e.deleted = !e.foreign &&
		(m.Header.Get(headerOperation) != "" || m.Header.Get(jetstream.MarkerReasonHeader) != "")
	e.foreign = e.foreign || !e.deleted && len(m.Data) == 0 // a status, or an acknowledgement of one
	if !e.deleted && !e.foreign {
		ttl = natsio.TimeToLive(m.Header.Get(jetstream.MsgTTLHeader))
	}
	return e, ttl, true
}
