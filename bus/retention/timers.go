package retention

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// timerWaits reports whether a timer of a session waits. What lies there and is no schedule never fires: a server
// answered there, because somebody had it answer. It is removed, so that it is looked at once.
func (d *Deleter) timerWaits(ctx context.Context, session string) (waits bool, err error) {
	subjects, err := d.stored(ctx, schemas.StreamTimers, d.subjects().Schedule(session, "*"))
	if err != nil {
		return false, err
	}
	for subject := range subjects {
		seq, schedule, err := d.timer(ctx, subject)
		switch {
		case natsio.Passing(err):
			return true, nil // a user of before may not read it
		case err != nil:
			return false, fmt.Errorf("timer at %s: %w", subject, err)
		case schedule:
			return true, nil
		case seq == 0:
			continue
		}
		if err := d.purge(ctx, schemas.StreamTimers, subject, jetstream.WithPurgeSequence(seq+1)); err != nil {
			return false, err
		}
	}
	return false, nil
}

// timer asks the leader of the stream, for another replica may be behind, what lies at a timer's subject: at which
// sequence, 0 where nothing does, and whether it is a schedule, which no other stream can store.
func (d *Deleter) timer(ctx context.Context, subject string) (seq uint64, schedule bool, err error) {
	js := d.conn.JetStream()
	ask, err := json.Marshal(map[string]string{"last_by_subj": subject})
	if err != nil {
		return 0, false, err
	}
	ctx, cancel := context.WithTimeout(ctx, natsio.AwayTimeout)
	defer cancel()
	got, err := natsio.Request(ctx, d.conn.NATS(), natsio.APIPrefix(js)+"STREAM.MSG.GET."+schemas.StreamTimers, ask)
	if err != nil {
		return 0, false, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq    uint64 `json:"seq"`
			Header []byte `json:"hdrs"`
		} `json:"message"`
	}
	if err := json.Unmarshal(got.Data, &answer); err != nil {
		return 0, false, err
	}
	if answer.Error != nil {
		if answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound {
			return 0, false, nil
		}
		return 0, false, answer.Error
	}
	header, err := nats.DecodeHeadersMsg(answer.Message.Header) // an error where there is none
	return answer.Message.Seq, err == nil && header.Get(jetstream.ScheduleHeader) != "", nil
}
