package bus

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	pinHeader = "Nats-Pin-Id"
	lastWait  = 500 * time.Millisecond // for messages on their way when a partition is left
)

// take passes a message on. Where another runner may have read it until now, what comes first waits for a moment: what that
// one had received and not begun belongs before it, and is coming back.
func (p *partition) take(ctx context.Context, msg jetstream.Msg) {
	p.pin = msg.Headers().Get(pinHeader)
	if md, err := msg.Metadata(); err == nil {
		p.hearing.hear(md, p.sub.opts.AckWait)
	}
	if !p.fresh || len(p.early) == 0 && !p.sub.met.Load() {
		p.fresh = false
		p.sub.take(ctx, p, msg)
		return
	}
	if p.early = append(p.early, msg); len(p.early) == 1 {
		p.settled.Reset(p.sub.opts.TakeoverWait)
	}
}

func (p *partition) takeEarly(ctx context.Context) {
	slices.SortStableFunc(p.early, func(a, b jetstream.Msg) int { return cmp.Compare(sequence(a), sequence(b)) })
	for _, msg := range p.early {
		p.sub.take(ctx, p, msg)
	}
	p.early, p.fresh = nil, false
}

func sequence(m jetstream.Msg) uint64 {
	md, err := m.Metadata()
	if err != nil {
		return 0
	}
	return md.Sequence.Stream
}

// giveBack ends the reading: what was not passed on, or passed on and not begun, goes back to the server, and the next
// reader may begin.
func (p *partition) giveBack() {
	close(p.over)
	for _, msg := range p.early {
		p.back(msg)
	}
	p.early = nil
	p.unpin()
	close(p.left)
}

func (p *partition) back(msg jetstream.Msg) {
	if err := msg.Nak(); err != nil {
		p.logger.Debug("give back a command", "subject", msg.Subject(), "err", err)
	}
}

// wished starts the wait for the partition to become idle, or forgets it.
func (p *partition) wished() {
	p.late = false
	p.patient.Reset(p.sub.opts.HandoverWait)
}

// leaving reports whether the partition should be left now. What the last pull has brought already comes first, unless
// there is no time for that.
func (p *partition) leaving(batch jetstream.MessageBatch) bool {
	if p.sub.isDraining() || !p.wanted && p.late {
		return true
	}
	return !p.wanted && p.inHand.Load() == 0 && len(p.early) == 0 && (batch == nil || len(batch.Messages()) == 0)
}

// windDown leaves the partition and gives back what the last pull request still brings. Where others are waiting it
// listens for a moment, because a message that nobody hears would reach them only after AckWait.
func (p *partition) windDown(batch jetstream.MessageBatch, cancel context.CancelFunc) {
	for len(batch.Messages()) > 0 {
		p.early = append(p.early, <-batch.Messages())
		p.pin = p.early[len(p.early)-1].Headers().Get(pinHeader)
	}
	p.giveBack()
	cutOff := time.AfterFunc(lastWait, cancel)
	defer cutOff.Stop()
	if !p.sub.others.Load() {
		cancel()
	}
	for msg := range batch.Messages() {
		p.pin = msg.Headers().Get(pinHeader)
		p.unpin() // in case this is how the server pinned us; before the message goes back, or it comes here again
		p.back(msg)
	}
}

// unpin lets the server give the partition to another runner at once. It ends no pin but ours: that would cost the other
// reader a round trip and let in a third.
func (p *partition) unpin() {
	if p.pin == p.unpinned {
		return
	}
	p.unpinned = p.pin
	if err := p.sub.unpin(p.n); err != nil {
		p.logger.Debug("unpin partition", "err", err)
	}
}
