package registry

import (
	"cmp"
	"context"
	"encoding/json"
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
	repairRetry   = 10 * time.Second // after an error
	repairTimeout = 5 * time.Second  // of a request
)

// errGone says that the bucket does not have a revision any more.
var errGone = errors.New("the revision is gone")

// Repair takes answers of servers out of the bucket, and revisions that no longer count, until ctx ends. A profile that
// an answer lies over is put again as it is stored, if nobody has put or deleted anything since. It needs a runner's
// permissions, and any number of runners may do it at once: each waits between half of every and one and a half of it
// before it does, so that one does it for all, and answers cost no more than that. 0 is a second.
func (p *Profiles) Repair(ctx context.Context, every time.Duration) {
	every = cmp.Or(every, time.Second)
	for wait := every; ; {
		if len(p.keys.needing()) == 0 {
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
		for name, of := range p.keys.needing() {
			if err := p.repair(ctx, name, of); err != nil && ctx.Err() == nil {
				p.log.Warn("profile not put in order: its runner needs the permission to publish to the bucket",
					"profile", name, "bucket", schemas.BucketProfiles, "err", err)
				wait = repairRetry
				break
			}
		}
	}
}

// repair puts a key in order. A conflict is no error: who was first will be seen.
func (p *Profiles) repair(ctx context.Context, name string, of key) (err error) {
	ctx, cancel := context.WithTimeout(ctx, repairTimeout)
	defer cancel()
	switch {
	case of.over > 0 && of.said > 0 && !of.deleted:
		if err = p.putBack(ctx, name, of); errors.Is(err, errGone) {
			err = p.purge(ctx, name, of.over+1) // whoever has removed it has deleted the profile
		}
	case of.over > 0: // there is nothing below
		err = p.purge(ctx, name, of.over+1)
	default:
		err = p.purge(ctx, name, of.said)
	}
	if natsio.HasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, codeConflictInFlight) {
		return nil
	}
	if err == nil {
		p.keys.mended(name, of)
	}
	return err
}

// codeConflictInFlight is how replicas refuse what another write of the subject is in flight for.
const codeConflictInFlight jetstream.ErrorCode = 10164

// putBack publishes what is stored as the revision that counts, in place of all that the key has, if the newest of that
// is still the answer. What lies between the two are answers: a bucket gives no revision up for a newer one.
func (p *Profiles) putBack(ctx context.Context, name string, of key) error {
	data, err := p.stored(ctx, name, of.said)
	if err != nil {
		return err
	}
	js := p.conn.JetStream()
	msg := nats.NewMsg(natsio.KeySubject(js, schemas.BucketProfiles, name))
	msg.Data = data
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject)
	msg.Header.Set(jetstream.ExpectedLastSubjSeqHeader, strconv.FormatUint(of.over, 10))
	ack, err := js.PublishMsg(ctx, msg)
	if err != nil {
		return fmt.Errorf("put profile %s of revision %d again: %w", name, of.said, err)
	}
	p.log.Info("profile put again: an answer of a NATS server lay over it", "profile", name, "revision", of.said,
		"now", ack.Sequence)
	return nil
}

// stored returns what the leader of the bucket has as a revision of a profile.
func (p *Profiles) stored(ctx context.Context, name string, revision uint64) ([]byte, error) {
	js := p.conn.JetStream()
	got, err := natsio.Request(ctx, p.conn.NATS(), natsio.APIPrefix(js)+"STREAM.MSG.GET.KV_"+schemas.BucketProfiles,
		fmt.Appendf(nil, `{"seq":%d}`, revision))
	if err != nil {
		return nil, fmt.Errorf("profile %s, revision %d: %w", name, revision, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Subject string `json:"subject"`
			Data    []byte `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(got.Data, &answer); err != nil {
		return nil, fmt.Errorf("profile %s, revision %d: %w", name, revision, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		return nil, fmt.Errorf("profile %s, revision %d: %w", name, revision, answer.Error)
	}
	if answer.Message.Subject != bucketSubject(name) {
		return nil, errGone
	}
	return answer.Message.Data, nil
}

// purge removes what a key has before a revision. What has come since stays.
func (p *Profiles) purge(ctx context.Context, name string, before uint64) error {
	stream, err := p.conn.JetStream().Stream(ctx, "KV_"+schemas.BucketProfiles)
	if err == nil {
		err = stream.Purge(ctx, jetstream.WithPurgeSubject(bucketSubject(name)), jetstream.WithPurgeSequence(before))
	}
	if err != nil {
		return fmt.Errorf("remove what no longer counts of profile %s: %w", name, err)
	}
	return nil
}

func bucketSubject(name string) string { return "$KV." + schemas.BucketProfiles + "." + name }
