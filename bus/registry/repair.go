package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const (
	repairRetry   = 10 * time.Second // pause after an error
	repairTimeout = 5 * time.Second  // of the repair of one key
)

// errGone means that the bucket does not contain a revision any more.
var errGone = errors.New("the revision is gone")

// Repair removes foreign entries and outdated revisions from the bucket until ctx ends. If a foreign entry covers a
// profile, Repair puts the stored profile again, unless a client has put or deleted the profile since.
//
// It needs a runner's permissions. Any number of runners may run it concurrently: each waits between half of every and
// one and a half of every before a repair, so that usually one of them repairs for all, and foreign entries cause no
// more work than that. If every is 0 it is one second.
func (p *Profiles) Repair(ctx context.Context, every time.Duration) {
	every = cmp.Or(every, time.Second)
	for wait := every; ; {
		if len(p.keys.damaged()) == 0 {
			select {
			case <-p.keys.found:
			case <-ctx.Done():
				return
			}
		}
		if !natsio.Wait(ctx, wait/2+rand.N(wait)) {
			return
		}
		wait = every
		for name, state := range p.keys.damaged() {
			if err := p.repair(ctx, name, state); err != nil && ctx.Err() == nil {
				p.log.Warn("profile not repaired, the runner needs the permission to publish to the bucket",
					"profile", name, "bucket", schemas.BucketProfiles, "err", err)
				wait = repairRetry
				break
			}
		}
	}
}

// repair repairs a key in a known state. A conflict is no error: the watch delivers the change that came first.
func (p *Profiles) repair(ctx context.Context, name string, state key) (err error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	switch {
	case state.cover > 0 && state.revision > 0 && !state.deleted:
		if err = p.restore(ctx, name, state); errors.Is(err, errGone) {
			err = p.purge(ctx, name, state.cover+1) // a client has removed the revision: the profile is deleted
		}
	case state.cover > 0: // it covers no profile
		err = p.purge(ctx, name, state.cover+1)
	default:
		err = p.purge(ctx, name, state.revision)
	}
	if natsio.Outdated(err) {
		return nil
	}
	if err == nil {
		p.keys.repaired(name, state)
	}
	return err
}

// restore publishes the valid revision of a profile again. The new message replaces all others of the key, provided
// that the newest of them is still the foreign entry that state names. All entries between that and the valid revision
// are foreign too, because the bucket never discards an older revision to store a newer one.
func (p *Profiles) restore(ctx context.Context, name string, state key) error {
	data, err := p.stored(ctx, name, state.revision)
	if err != nil {
		return err
	}
	js := p.conn.JetStream()
	msg := nats.NewMsg(natsio.KeySubject(js, schemas.BucketProfiles, name))
	msg.Data = data
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(state.cover, 10))
	ack, err := js.PublishMsg(ctx, msg)
	if err != nil {
		return fmt.Errorf("put profile %s of revision %d again: %w", name, state.revision, err)
	}
	p.log.Info("restored a profile that was covered by an answer of a NATS server", "profile", name,
		"revision", state.revision, "now", ack.Sequence)
	return nil
}

// stored reads a revision of a profile from the leader of the bucket. It returns errGone if there is none.
func (p *Profiles) stored(ctx context.Context, name string, revision uint64) ([]byte, error) {
	m, ok, err := natsio.At(ctx, p.conn.JetStream(), "KV_"+schemas.BucketProfiles, revision)
	if err != nil {
		return nil, fmt.Errorf("read profile %s, revision %d: %w", name, revision, err)
	}
	if !ok || m.Subject != bucketSubject(name) {
		return nil, errGone
	}
	return m.Data, nil
}

// purge removes the messages of a key before a revision.
func (p *Profiles) purge(ctx context.Context, name string, before uint64) error {
	stream, err := p.conn.JetStream().Stream(ctx, "KV_"+schemas.BucketProfiles)
	if err == nil {
		err = natsio.PurgeSubject(ctx, stream, bucketSubject(name), jetstream.WithPurgeSequence(before))
	}
	if err != nil {
		return fmt.Errorf("purge profile %s before revision %d: %w", name, before, err)
	}
	return nil
}

func bucketSubject(name string) string { return "$KV." + schemas.BucketProfiles + "." + name }
