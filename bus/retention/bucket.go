package retention

import (
	"context"
	"maps"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// keySubject returns the subject of what the bucket of deletions has at a key.
func keySubject(key string) string { return "$KV." + schemas.BucketDeletions + "." + key }

// last calls take with the newest message at a key and, if take refuses that one, with all of them in their order. It
// asks the leader, which readers of records may not. tail is the sequence of the newest message, 0 if there is none.
func (d *Deleter) last(ctx context.Context, key string, take func(natsio.Stored) bool) (tail uint64, err error) {
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	js := d.conn.JetStream()
	newest, found, err := natsio.Last(ctx, js, recordStream, keySubject(key))
	if err != nil || !found || take(newest) {
		return newest.Sequence, err
	}
	_, err = natsio.ScanSubject(ctx, js, recordStream, keySubject(key), 1, newest.Sequence, func(m natsio.Stored) error {
		take(m)
		return nil
	})
	return newest.Sequence, err
}

// replace publishes a message in place of all messages at a key, if the newest one has the sequence tail. It returns
// the new sequence. KeyValue.Update sets no TTL, and a key that is full of servers' answers accepts only roll-ups.
func (d *Deleter) replace(ctx context.Context, key string, tail uint64, header nats.Header, value []byte) (uint64,
	error) {
	js := d.conn.JetStream()
	m := nats.NewMsg(natsio.KeySubject(js, schemas.BucketDeletions, key))
	m.Data = value
	maps.Copy(m.Header, header)
	m.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	m.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(tail, 10))
	ack, err := js.PublishMsg(ctx, m)
	if err != nil {
		return 0, err
	}
	return ack.Sequence, nil
}
