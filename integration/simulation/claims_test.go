package simulation_test

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// claims makes the consumer read what this runner should. It belongs to one goroutine.
type claims struct {
	in         *inbox
	begun      bool              // there has been an epoch in this process
	lost       int               // view.lost when the last epoch began
	until      map[int]time.Time // when a partition that another runner should read is left, idle or not
	shared     bool              // another runner said that it reads what this one does
	unverified bool              // since then another runner may have read what this one did
	pause      time.Duration     // after which a change that has failed is retried
	leftAt     time.Time         // when partitions were left last
}

// reconcile makes a new consumer if the share is another than what is read, or what it delivers has to be verified.
// again says when to look again unless something happens before; nil is never.
func (c *claims) reconcile(ctx context.Context) (again <-chan time.Time) {
	v := c.in.members.view()
	c.in.mu.Lock()
	now := c.in.epoch
	c.watchOverlap(v, now)
	broken := now == nil || now.broken != nil
	wants, wait := c.wants(v, now)
	c.in.mu.Unlock()
	if !broken && slices.Equal(wants, now.reads) || now == nil && len(wants) == 0 && !c.unverified {
		return after(wait)
	}
	if err := c.replace(ctx, v, now, wants); err != nil {
		c.in.note("%s: cannot read %v: %v", c.in.name, wants, err)
		c.unverified = true
		c.pause = min(max(2*c.pause, minReconcile), maxReconcile)
		return time.After(c.pause)
	}
	c.pause = 0
	return after(wait)
}

// watchOverlap has what is begun verified when another runner that read the same has stopped: servers of a cluster may
// let two consumers overlap that are made at once, and each runner settles what the other does not receive. mu is held.
func (c *claims) watchOverlap(v view, now *epoch) {
	shared := now != nil && slices.ContainsFunc(now.reads, func(n int) bool { return v.reads[n] != "" })
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

// wants are the partitions to read: the share, but for what another runner still reads; and of what is read, what
// another runner should read but is not idle, for handoverWait. mu is held.
func (c *claims) wants(v view, now *epoch) (wants []int, wait time.Duration) {
	share := share(v.ids, c.in.name)
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
			deadline = time.Now().Add(handoverWait)
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
		if _, other := v.reads[n]; !other || slices.Contains(reads, n) {
			wants = append(wants, n)
		}
	}
	slices.Sort(wants)
	return wants, wait
}

// share is what falls to a runner by rendezvous hashing.
func share(live []string, self string) (mine []int) {
	for n := range partitions {
		weight := func(runner string) uint64 { return hash(runner + string(rune('0'+n))) }
		best := slices.MaxFunc(live, func(a, b string) int {
			if weight(a) < weight(b) {
				return -1
			}
			return 1
		})
		if best == self {
			mine = append(mine, n)
		}
	}
	return mine
}

// replace deletes the consumer in use and makes one of the partitions wanted.
func (c *claims) replace(ctx context.Context, v view, now *epoch, wants []int) error {
	in := c.in
	if now != nil && now.broken != nil {
		c.unverified = true
		in.note("%s: reads anew: %v", in.name, now.broken)
	}
	in.stopReading()
	found, err := in.deleteOwn(ctx)
	if err != nil {
		return err
	}
	c.unverified = c.unverified || !found
	if now != nil {
		c.leftAt = time.Now()
	}
	in.dropOthers(wants)
	if !c.begun || v.lost != c.lost || c.unverified {
		if err := in.sweep(ctx, v.ids); err != nil {
			return err
		}
	}
	if len(wants) > 0 {
		if err := in.newEpoch(ctx, wants); err != nil {
			return err
		}
	}
	c.begun, c.lost = true, v.lost
	in.members.setReads(wants)
	in.note("%s: reads %v", in.name, wants)
	if c.unverified {
		c.unverified = false
		in.verify(ctx)
	}
	return nil
}

// dropOthers cuts off what is in flight of partitions that are not read any more.
func (in *inbox) dropOthers(reads []int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, seq := range slices.Sorted(maps.Keys(in.flights)) {
		f := in.flights[seq]
		if f != nil && !slices.Contains(reads, f.partition) && !f.dropped {
			in.drop(f)
		}
	}
}

// verify asks of every session at work whether it is still this runner's: while that was not verified another one
// may have had it. Work on a session that is not is begun anew.
func (in *inbox) verify(ctx context.Context) {
	sessions := map[string][]*flight{}
	in.mu.Lock()
	for _, seq := range slices.Sorted(maps.Keys(in.flights)) {
		if f := in.flights[seq]; !f.dropped && in.begun(f) {
			sessions[f.cmd.Session] = append(sessions[f.cmd.Session], f)
		}
	}
	in.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), keepLimit)
	var asking sync.WaitGroup
	for session, flights := range sessions {
		in.running.Add(1)
		asking.Go(func() {
			defer in.running.Done()
			if !in.handler.Owns(ctx, session) {
				in.restartAll(flights)
			}
		})
	}
	in.running.Go(func() { asking.Wait(); cancel() })
}

// restartAll begins the messages of a session anew that have been redelivered, and drops those that have not been,
// with those behind them: when they are, they begin anew.
func (in *inbox) restartAll(flights []*flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, f := range flights {
		switch {
		case f.dropped || in.flights[f.seq] != f:
		case f.epoch == in.epoch:
			in.restart(f)
		default:
			for _, behind := range slices.Backward(slices.Clone(in.queues[f.cmd.Session])) {
				if behind != f && behind.epoch != in.epoch {
					in.drop(behind)
				}
			}
			in.drop(f)
		}
	}
}
