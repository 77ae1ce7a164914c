package membership

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const markerTTL = 30 * time.Second // of the delete marker of an entry

// natsNetwork implements [Network] on the runners' subjects and the bucket agent_runners.
type natsNetwork struct {
	nc       *nats.Conn
	js       jetstream.JetStream
	subjects schemas.Subjects
	id       string
}

// NewNATS returns the network of the runner with this id.
func NewNATS(nc *nats.Conn, js jetstream.JetStream, subjects schemas.Subjects, id string) Network {
	return &natsNetwork{nc, js, subjects, id}
}

func (n *natsNetwork) Join(receive func([]byte)) (stop func(), err error) {
	beats, err := n.nc.Subscribe(n.subjects.Heartbeat(), func(m *nats.Msg) {
		if codec.IsAnnounced(m) { // not an answer of a service, which may contain an id too
			receive(m.Data)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("subscribe to heartbeats: %w", err)
	}
	probes, err := n.nc.Subscribe(n.subjects.Probe(n.id), func(probe *nats.Msg) {
		if schemas.MayAnswer(probe.Reply) { // any client may send a probe, but must not choose any subject for the answer
			_ = probe.Respond(nil)
		}
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("subscribe to probes: %w", err), beats.Unsubscribe())
	}
	return func() {
		_ = beats.Unsubscribe()
		_ = probes.Unsubscribe()
	}, nil
}

func (n *natsNetwork) Publish(heartbeat []byte) error {
	return n.nc.Publish(n.subjects.Heartbeat(), heartbeat)
}

// Unconnected is false for a suspended runner: it does not answer, but its connection is open. The probe's reply
// subject cannot be guessed ([natsio.Request]): a server's status 503 sent there would count as a closed connection.
func (n *natsNetwork) Unconnected(ctx context.Context, id string) bool {
	_, err := natsio.Request(ctx, n.nc, n.subjects.Probe(id), nil)
	return errors.Is(err, nats.ErrNoResponders)
}

func (n *natsNetwork) Listed(ctx context.Context) (ids []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, entryTimeout)
	defer cancel()
	kv, err := n.js.KeyValue(ctx, schemas.BucketRunners)
	if err != nil {
		return nil, err
	}
	entries, err := kv.WatchAll(ctx, jetstream.IgnoreDeletes())
	if err != nil {
		return nil, err
	}
	defer func() { _ = entries.Stop() }()
	for {
		select {
		case e := <-entries.Updates():
			if e == nil { // no more entries, or the watch has ended
				return ids, nil
			}
			var who entry
			if json.Unmarshal(e.Value(), &who) == nil && who.ID == e.Key() { // otherwise a server was made to answer at this key
				ids = append(ids, who.ID)
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// entry is the value of a runner's key in the bucket.
type entry struct {
	ID      string    `json:"id"`
	Started time.Time `json:"started"`
}

// Enlist publishes the entry itself, because kv.Put cannot set a TTL and would remove the TTL of the entry.
func (n *natsNetwork) Enlist(ctx context.Context, started time.Time) error {
	value, err := json.Marshal(entry{n.id, started})
	if err == nil {
		subject := natsio.KeySubject(n.js, schemas.BucketRunners, n.id)
		_, err = n.js.Publish(ctx, subject, value, jetstream.WithMsgTTL(EntryTTL))
	}
	return err
}

func (n *natsNetwork) Remove(ctx context.Context) error {
	kv, err := n.js.KeyValue(ctx, schemas.BucketRunners)
	if err == nil {
		err = kv.Purge(ctx, n.id, jetstream.PurgeTTL(markerTTL))
	}
	if err != nil {
		return fmt.Errorf("membership: remove the entry of runner %s: %w", n.id, err)
	}
	return nil
}
