package bus

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	maxPullBatch = 16                     // messages that one pull request asks for
	windDown     = 100 * time.Millisecond // for a pull request that was cut off to be answered
	maxPullWait  = 2 * time.Second        // between pull requests that fail
)

// partition reads one partition of the inbox, from one goroutine.
//
// It pulls in batches for which there are slots, and a request lives for half of PinnedTTL, so that the pin does not
// end while the runner lives. What is received is in hand, and given signs of life, before the next is looked at.
type partition struct {
	sub    *inboxSubscriber
	n      int
	logger *slog.Logger
	wishes chan bool     // the latest wish whether it should be read
	idle   chan struct{} // signalled when nothing of it is in hand any more
	gone   chan struct{} // closed when it is not read any more
	inHand atomic.Int64

	wanted  bool        // what follows belongs to the reading goroutine
	patient *time.Timer // how long it waits to become idle once it is not wanted
	late    bool        // it has waited long enough
}

func newPartition(s *inboxSubscriber, n int) *partition {
	return &partition{sub: s, n: n, logger: s.opts.Logger.With("partition", n), wanted: true, wishes: make(chan bool, 1),
		idle: make(chan struct{}, 1), gone: make(chan struct{}), patient: time.NewTimer(time.Hour)}
}

// wish says whether the partition should be read; the latest wish counts.
func (p *partition) wish(wanted bool) {
	select {
	case <-p.wishes:
	default:
	}
	p.wishes <- wanted
}

// finished says that one of its messages is settled.
func (p *partition) finished() {
	if p.inHand.Add(-1) == 0 {
		select {
		case p.idle <- struct{}{}:
		default:
		}
	}
}

// log tells of what could not be told to the server.
func (p *partition) log(d *delivery, action string, err error) {
	if err != nil {
		p.logger.Warn("command will be delivered again", "action", action, "seq", d.seq, "err", err)
	}
}

// read pulls until the partition is left.
func (p *partition) read(ctx context.Context) {
	defer close(p.gone)
	defer p.patient.Stop()
	p.logger.Debug("reading partition")
	var consumer jetstream.Consumer
	failures := 0
	for !p.leaving() {
		var err error
		if consumer == nil {
			consumer, err = p.sub.consumer(ctx, p.n)
		}
		if err == nil {
			err = p.pull(ctx, consumer)
		}
		if err == nil || errors.Is(err, jetstream.ErrPinIDMismatch) { // the next pull asks for a new pin
			failures = 0
			continue
		}
		consumer = nil // it may have been deleted
		if failures++; !p.retry(err, failures) {
			return
		}
	}
	p.logger.Debug("left partition")
}

// retry waits before the next try; it reports false if there should be none.
func (p *partition) retry(err error, failures int) bool {
	if !p.sub.fail(err) {
		return false
	}
	if failures == 1 {
		p.logger.Warn("pulling commands is interrupted, trying again", "err", err)
	}
	pause := time.NewTimer(min(retryWait<<min(failures-1, 5), maxPullWait))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-p.sub.draining:
	}
	return true
}

// pull asks for as many messages as there are slots and takes them until the request has ended or the partition is
// left.
func (p *partition) pull(ctx context.Context, c jetstream.Consumer) error {
	asked := p.sub.slots.take(p.sub.batch, p.sub.draining)
	if asked == 0 {
		return nil
	}
	taken := 0
	defer func() { p.sub.slots.give(asked - taken) }()
	request, cancel := context.WithCancel(ctx)
	defer cancel()
	batch, err := c.Fetch(asked, jetstream.FetchContext(newPullTime(request, p.sub.pullExpiry())), jetstream.FetchPriorityGroup(priorityGroup))
	if err != nil {
		return err
	}
	for !p.leaving() {
		select {
		case msg, ok := <-batch.Messages():
			if !ok {
				return pullError(batch.Error())
			}
			taken++
			p.sub.take(ctx, p, msg)
		case p.wanted = <-p.wishes:
			p.wished()
		case <-p.idle:
		case <-p.patient.C:
			p.late = true
		case <-p.sub.draining:
		}
	}
	p.handOver(batch, cancel)
	return nil
}

// wished starts the wait for the partition to become idle, or forgets it.
func (p *partition) wished() {
	p.late = false
	p.patient.Reset(p.sub.opts.HandoverWait)
}

// leaving reports whether the partition should be left now.
func (p *partition) leaving() bool {
	return p.sub.isDraining() || !p.wanted && (p.late || p.inHand.Load() == 0)
}

// handOver gives the partition to whoever reads it next. It keeps listening for a moment: the server may be sending a
// message just now, and one that nobody hears would be delivered again only after AckWait. What still comes is given back.
func (p *partition) handOver(batch jetstream.MessageBatch, cancel context.CancelFunc) {
	p.unpin()
	cutOff := time.AfterFunc(windDown, cancel)
	defer cutOff.Stop()
	late := false
	for msg := range batch.Messages() {
		p.logger.Debug("giving back a command that came late", "subject", msg.Subject(), "err", msg.Nak())
		late = true
		cancel()
	}
	if late {
		p.unpin()
	}
}

func (p *partition) unpin() {
	if err := p.sub.unpin(p.n); err != nil {
		p.logger.Debug("unpin partition", "err", err)
	}
}

// pullTime is a context that tells its deadline and does not keep it: [jetstream.FetchContext] tells the server how long
// the request is good for, and the server's word that it is over comes behind every message that answers it. Ending on
// our own clock could lose one, until its AckWait. If no word comes the fetch ends by itself, a second later.
type pullTime struct {
	context.Context
	until time.Time
}

func newPullTime(ctx context.Context, d time.Duration) pullTime {
	return pullTime{ctx, time.Now().Add(d * 10 / 9)} // a tenth is kept back as a margin
}

func (t pullTime) Deadline() (time.Time, bool) { return t.until, true }

// pullError returns nil for the ends that every pull request has.
func pullError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, nats.ErrTimeout) {
		return nil
	}
	return err
}
