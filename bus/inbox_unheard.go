package bus

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// hearing is what the reader of a partition knows of the deliveries that it has not received: those that went to a reader
// that is gone, or into a connection that broke. They come again, but only after AckWait, and what was sent later must
// not pass them. It belongs to the reading goroutine.
//
// The consumer counts its deliveries. Where that count does not go on from the last one received, something may have been
// missed, and for as long as it takes to come again every session is looked up before a message of it is let in.
type hearing struct {
	count    uint64    // of the newest delivery received
	doubtful time.Time // until then
	heard    []uint64  // sequences of the newest messages received, in a ring
	next     int
}

const (
	// heardSize is how many messages a reader remembers. It only has to cover those that were settled a moment ago and
	// are not out of the stream yet; what is in hand is known otherwise.
	heardSize = 256
	// unheardMargin is how much later than AckWait the server may be.
	unheardMargin = time.Second
	// lookTimeout bounds the look for what was not heard, and firstLook its first request. What cannot be found out costs the
	// session as much as if something waited, so that a request or an answer that is lost is asked again soon.
	lookTimeout = 4 * time.Second
	firstLook   = 500 * time.Millisecond
)

// hear notes a delivery.
func (h *hearing) hear(md *jetstream.MsgMetadata, ackWait time.Duration) {
	if md.Sequence.Consumer != h.count+1 {
		h.doubtful = time.Now().Add(ackWait + unheardMargin)
	}
	h.count = md.Sequence.Consumer
	if len(h.heard) < heardSize {
		h.heard = append(h.heard, md.Sequence.Stream)
		return
	}
	h.heard[h.next] = md.Sequence.Stream
	h.next = (h.next + 1) % heardSize
}

// unheard returns the sequences of a session's messages before seq that wait in the stream and that nobody here has
// received. There are none but in times of doubt. If it cannot be found out, something is taken to wait.
func (p *partition) unheard(ctx context.Context, session string, seq uint64) []uint64 {
	if session == "" || time.Now().After(p.hearing.doubtful) {
		return nil
	}
	waiting, err := p.sub.waiting(ctx, p.n, session, seq)
	if err != nil {
		p.logger.Warn("looking for earlier commands", "session", session, "seq", seq, "err", err)
		return []uint64{seq - 1}
	}
	return slices.DeleteFunc(waiting, func(seq uint64) bool {
		return slices.Contains(p.hearing.heard, seq) || p.sub.hand.has(seq)
	})
}

// waiting returns the sequences of a session's messages before seq that are in the stream.
func (s *inboxSubscriber) waiting(ctx context.Context, partition int, session string, seq uint64) ([]uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	var found []uint64
	filter := fmt.Sprintf("%s.cmd.%d.%s.*", s.conn.subjects.Prefix(), partition, session)
	for from := uint64(1); ; from = found[len(found)-1] + 1 {
		var next uint64
		err := untilAnswered(ctx, firstLook, func(ctx context.Context) (err error) {
			next, err = s.conn.nextInStream(ctx, schemas.StreamCommands, filter, from)
			return err
		})
		if err != nil {
			return nil, err
		}
		if next == 0 || next >= seq {
			return found, nil
		}
		found = append(found, next)
	}
}

// untilAnswered asks again and again until ctx ends, and gives each request twice the time of the one before: one may be lost,
// or the server slow.
func untilAnswered(ctx context.Context, first time.Duration, ask func(context.Context) error) error {
	for limit := first; ; limit *= 2 {
		try, cancel := context.WithTimeout(ctx, limit)
		err := ask(try)
		if err != nil {
			<-try.Done() // there is no leader yet, say
		}
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// nextInStream returns the sequence of the first message from a sequence on whose subject matches, 0 if there is none.
// It asks the stream's leader: a replica that answers a direct get may be a moment behind.
func (c *Conn) nextInStream(ctx context.Context, stream, filter string, from uint64) (uint64, error) {
	request, err := json.Marshal(map[string]any{"seq": from, "next_by_subj": filter})
	if err != nil {
		return 0, err
	}
	msg, err := c.nc.RequestWithContext(ctx, jetstream.DefaultAPIPrefix+"STREAM.MSG.GET."+stream, request)
	if err != nil {
		return 0, fmt.Errorf("next message of %s in %s: %w", filter, stream, err)
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message struct {
			Seq uint64 `json:"seq"`
		} `json:"message"`
	}
	if err := json.Unmarshal(msg.Data, &answer); err != nil {
		return 0, fmt.Errorf("next message of %s in %s: %w", filter, stream, err)
	}
	if answer.Error != nil && answer.Error.ErrorCode != jetstream.JSErrCodeMessageNotFound {
		return 0, fmt.Errorf("next message of %s in %s: %w", filter, stream, answer.Error)
	}
	return answer.Message.Seq, nil
}
