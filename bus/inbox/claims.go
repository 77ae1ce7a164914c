package inbox

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/membership"
)

const (
	minReconcile = 20 * time.Millisecond // before a share that could not be had is tried again
	maxReconcile = time.Second
	// gatherTime is how long partitions that become idle are gathered before they are left together.
	gatherTime = 100 * time.Millisecond
	keepLimit  = 4 * time.Second // of asking whether a session is still this runner's
)

// claims makes the consumer read what this runner should. It belongs to one goroutine.
type claims struct {
	in         *Inbox
	begun      bool              // there has been an epoch in this process
	lost       int               // View.Lost when the last epoch began
	until      map[int]time.Time // when a partition that another runner should read is left, idle or not
	shared     bool              // another runner said that it reads what this one does
	unverified bool              // since then another runner may have read what this one did
	pause      time.Duration     // after which a change that has failed is tried again
	logged     bool              // that it fails
	asked      *epoch            // whose consumer was asked for, and may have been made although no answer came
	leftAt     time.Time         // when partitions were left last
}

// reconcile makes a new consumer if the share is another than what is read, or what it delivers has to be verified.
// again says when to look again unless something happens before; nil is never.
func (c *claims) reconcile(ctx context.Context) (again <-chan time.Time) {
	view := c.in.members.View()
	c.in.mu.Lock()
	now := c.in.epoch
	c.watchOverlap(view, now)
	broken := now == nil || now.broken != nil
	wants, wait := c.wants(view, now)
	c.in.mu.Unlock()
	if !broken && slices.Equal(wants, now.reads) {
		return after(wait)
	}
	if now != nil && broken {
		c.in.o.Logger.Warn("reading the inbox anew", "reason", now.broken)
		c.unverified = true
	}
	if err := c.replace(ctx, view, now, wants); err != nil {
		c.complain(ctx, err)
		c.unverified = true
		c.in.members.Reads(nil)
		c.pause = min(max(2*c.pause, minReconcile), maxReconcile)
		return time.After(c.pause)
	}
	c.pause, c.logged = 0, false
	c.in.becomeReady()
	return after(wait)
}

// abandon deletes a consumer that was asked for, and may have been made although no answer came: the others could not
// make theirs beside it.
func (c *claims) abandon() {
	if c.asked == nil || c.in.conn.NATS().IsClosed() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	if _, err := c.in.deleteConsumer(ctx, c.asked.name); err != nil {
		c.in.o.Logger.Warn("consumer not deleted; the others will do it", "err", err)
	}
}

// complain logs once, until the inbox is read again, that it cannot be read. That another runner has not left a
// partition yet is no trouble for a while.
func (c *claims) complain(ctx context.Context, err error) {
	if c.logged || ctx.Err() != nil || errors.Is(err, errOverlap) && c.pause < maxReconcile {
		return
	}
	c.logged = true
	c.in.o.Logger.Warn("cannot read the inbox, trying again", "err", err)
}

// watchOverlap has what is begun verified when another runner that read the same has stopped: servers of a cluster may
// let two consumers overlap that are made at once, and each runner settles what the other does not hear of. mu is held.
func (c *claims) watchOverlap(view membership.View, now *epoch) {
	shared := now != nil && slices.ContainsFunc(now.reads, func(n int) bool { return view.Reads[n] != "" })
	if c.shared && !shared && now != nil && now.broken == nil {
		now.broken = errShared
	}
	c.shared = shared
}

func after(d time.Duration) <-chan time.Time {
	if d <= 0 {
		return nil
	}
	return time.After(d)
}

func (in *Inbox) becomeReady() {
	select {
	case <-in.ready:
	default:
		close(in.ready)
	}
}

// wants are the partitions to read: the share, but for what another runner still reads; and of what is read, what
// another runner should read but is not idle, for HandoverWait. wait says when that has to be looked at again. mu is
// held.
func (c *claims) wants(view membership.View, now *epoch) (wants []int, wait time.Duration) {
	share := share(c.in.partitions, view.IDs, c.in.o.RunnerID)
	var reads []int
	if now != nil && now.broken == nil {
		reads = now.reads
		clear(now.leaving)
	}
	until := map[int]time.Time{}
	for _, n := range reads {
		if slices.Contains(share, n) {
			continue
		}
		deadline, ok := c.until[n]
		if !ok {
			deadline = time.Now().Add(c.in.o.HandoverWait)
		}
		left := time.Until(deadline)
		if c.in.busy[n] == 0 { // but not one by one
			left = min(left, time.Until(c.leftAt.Add(gatherTime)))
		}
		if left <= 0 {
			continue
		}
		until[n], now.leaving[n] = deadline, true
		wants = append(wants, n)
		if wait == 0 || left < wait {
			wait = left
		}
	}
	c.until = until
	for _, n := range share {
		if _, other := view.Reads[n]; !other || slices.Contains(reads, n) {
			wants = append(wants, n)
		}
	}
	slices.Sort(wants)
	return wants, wait
}

// replace deletes the consumer in use and makes one of the partitions wanted.
func (c *claims) replace(ctx context.Context, view membership.View, now *epoch, wants []int) error {
	in, began := c.in, time.Now()
	in.stopReading()
	found, err := in.deleteOwn(ctx)
	if err != nil {
		return err
	}
	c.unverified = c.unverified || !found
	if now != nil {
		c.asked = nil // it was made, and is gone
	}
	in.dropOthers(wants)
	if now == nil && len(wants) == 0 {
		c.unverified = false // nothing is at work that another runner may have
		in.members.Reads(nil)
		return nil
	}
	c.leftAt = time.Now()
	suspect := !c.begun || view.Lost != c.lost
	if suspect || c.unverified {
		found, err := in.sweep(ctx, view.IDs, c.asked.of(wants))
		if err != nil {
			return err
		}
		suspect = suspect || found
	}
	var unverified map[string][]*flight
	if c.unverified {
		unverified = in.begunBySession()
		if err := in.clearStatuses(ctx); err != nil {
			return err
		}
	}
	if len(wants) > 0 {
		if c.asked.of(wants) == "" {
			c.asked = in.newEpoch(wants, suspect)
		}
		if err := in.begin(ctx, c.asked); err != nil {
			return err
		}
		c.asked = nil
	}
	in.verify(ctx, unverified)
	c.begun, c.unverified, c.lost = true, false, view.Lost
	in.members.Reads(wants)
	in.metrics.takeover()
	in.o.Logger.Info("reading partitions", "count", len(wants), "suspect", suspect,
		"took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// dropOthers cuts off what is in flight of partitions that are not read any more.
func (in *Inbox) dropOthers(reads []int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range in.flights {
		if _, mine := slices.BinarySearch(reads, f.partition); !mine && !f.dropped {
			in.drop(f, ErrMoved)
		}
	}
}

// begunBySession are the messages at work.
func (in *Inbox) begunBySession() map[string][]*flight {
	in.mu.Lock()
	defer in.mu.Unlock()
	sessions := map[string][]*flight{}
	for _, f := range in.flights {
		if f.session != "" && !f.dropped && in.begun(f) {
			sessions[f.session] = append(sessions[f.session], f)
		}
	}
	return sessions
}

// verify asks of these sessions whether they are still this runner's: another one may have had them meanwhile. Work on
// a session that is not is begun anew.
func (in *Inbox) verify(ctx context.Context, sessions map[string][]*flight) {
	owner, ok := in.handler.(Owner)
	ctx = context.WithoutCancel(ctx)
	for session, flights := range sessions {
		in.running.Go(func() {
			ctx, cancel := context.WithTimeout(ctx, keepLimit)
			defer cancel()
			if !ok || !owner.Owns(ctx, session) {
				in.restartAll(flights)
			}
		})
	}
}

// restartAll begins the messages of a session anew that have been delivered again, and drops those that have not been,
// with those behind them: when they are, they begin anew.
func (in *Inbox) restartAll(flights []*flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range flights {
		switch {
		case f.dropped || in.flights[f.seq] != f:
		case f.epoch == in.epoch:
			in.restart(f, ErrMoved)
		default:
			for _, behind := range slices.Backward(slices.Clone(in.queues[f.queue])) {
				if behind != f && behind.epoch != in.epoch {
					in.drop(behind, ErrMoved)
				}
			}
			in.drop(f, ErrMoved)
		}
	}
}
