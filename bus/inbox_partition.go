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
	maxPullBatch = 16              // messages that one pull request asks for
	maxPullWait  = 2 * time.Second // between pull requests that fail
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
	over   chan struct{} // closed when it is being left: what has not begun goes back
	left   chan struct{} // closed when the server may give it to another runner
	gone   chan struct{} // closed when it is not read any more
	inHand atomic.Int64

	// What follows belongs to the reading goroutine.
	wanted  bool
	patient *time.Timer     // how long it waits to become idle once it is not wanted
	late    bool            // it has waited long enough
	fresh   bool            // it has passed on nothing yet
	early   []jetstream.Msg // what came first, until settled fires
	settled *time.Timer
	hearing hearing
	// The last pin that the server gave us, "" for none, and the last that we gave back.
	pin, unpinned string
}

func newPartition(s *inboxSubscriber, n int) *partition {
	return &partition{
		sub: s, n: n, logger: s.opts.Logger.With("partition", n), wishes: make(chan bool, 1), idle: make(chan struct{}, 1),
		over: make(chan struct{}), left: make(chan struct{}), gone: make(chan struct{}),
		wanted: true, patient: stoppedTimer(), fresh: true, settled: stoppedTimer(),
	}
}

func stoppedTimer() *time.Timer {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return t
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
	defer p.settled.Stop()
	defer func() {
		if !isClosed(p.over) {
			p.sub.slots.give(len(p.early))
			p.giveBack()
		}
	}()
	p.logger.Debug("reading partition")
	var consumer jetstream.Consumer
	failures := 0
	var patience time.Time // until when a consumer that fails is left to itself
	defer func() { p.recovered(failures) }()
	for !p.leaving(nil) {
		var err error
		if consumer == nil {
			stuck := failures > 0 && time.Now().After(patience)
			if stuck {
				patience = time.Now().Add(leaderlessFor)
			}
			consumer, err = p.sub.consumer(ctx, p.n, stuck)
		}
		if err == nil {
			err = p.pull(ctx, consumer)
		}
		if err == nil || errors.Is(err, jetstream.ErrPinIDMismatch) { // the next pull asks for a new pin
			p.recovered(failures)
			failures = 0
			continue
		}
		consumer = nil // it may have been deleted
		if failures == 0 {
			patience = time.Now().Add(leaderlessFor)
		}
		if failures++; !p.retry(err, failures) {
			return
		}
	}
	p.logger.Debug("left partition")
}

// retry waits before the next try; it reports false if there should be none.
func (p *partition) retry(err error, failures int) bool {
	if failures == 1 {
		p.sub.outage.begins(err)
	}
	if !p.sub.fail(err) {
		return false
	}
	pause := time.NewTimer(min(retryWait<<min(failures-1, 5), maxPullWait))
	defer pause.Stop()
	select {
	case <-pause.C:
	case <-p.sub.draining:
	}
	return true
}

// recovered ends a row of failures, if there were any.
func (p *partition) recovered(failures int) {
	if failures > 0 {
		p.sub.outage.ends()
	}
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
	batch, err := c.Fetch(asked, jetstream.FetchPriorityGroup(priorityGroup),
		jetstream.FetchContext(newPullTime(request, p.sub.pullExpiry())))
	if err != nil {
		return err
	}
	for !p.leaving(batch) {
		select {
		case msg, ok := <-batch.Messages():
			if !ok {
				return pullError(batch.Error())
			}
			taken++
			p.take(ctx, msg)
		case <-p.settled.C:
			p.takeEarly(ctx)
		case p.wanted = <-p.wishes:
			p.wished()
		case <-p.idle:
		case <-p.patient.C:
			p.late = true
		case <-p.sub.draining:
		}
	}
	taken -= len(p.early)
	p.windDown(batch, cancel)
	return nil
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
