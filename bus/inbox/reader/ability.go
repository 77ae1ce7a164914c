package reader

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	// unableAfter is how long the servers refuse a runner's consumers before other runners read its share.
	unableAfter = 5 * time.Second
	// A runner that cannot read tries again after firstTrial. The time doubles each time that it still could not.
	firstTrial = time.Second
	lastTrial  = time.Minute
)

// ability is whether the servers create consumers for this runner. A runner may be live and not able to read: its
// credentials do not allow it, or the account has a limit. The share of such a runner would be read by nobody, so its
// heartbeats say that it is unable, and the others leave it out. A runner that has just started is unable until it has
// created a consumer, unless no runner is able. Only the goroutine of [Reader.Run] uses it.
type ability struct {
	unable bool
	proven bool          // a consumer of the share was created since it was last unable
	since  time.Time     // of the first refusal of several in a row; zero after a success
	pause  time.Duration // before the next trial, when it is unable again
	next   time.Time     // of the next trial
}

// setUnable tells the other runners to read this runner's share until the next trial has succeeded.
func (r *Reader) setUnable(next time.Time) {
	a := &r.share.ability
	a.unable, a.proven, a.next = true, false, next
	r.o.Members.SetUnable(true)
}

// setAble tells the other runners to leave this runner its share.
func (r *Reader) setAble() {
	a := &r.share.ability
	a.since = time.Time{}
	if a.unable {
		a.unable = false
		r.o.Members.SetUnable(false)
		r.sick.Store(nil)
	}
}

// created notes that a consumer of the share was created.
func (r *Reader) created() {
	r.setAble()
	r.share.ability.proven, r.share.ability.pause = true, firstTrial
}

// refused counts a refusal of a consumer, in a trial or not. A consumer that overlaps with another one was not refused
// for this runner's sake: no other runner could create it either.
func (r *Reader) refused(err error, trial bool) {
	a, now := &r.share.ability, time.Now()
	if errors.Is(err, ErrOverlap) {
		return
	}
	if a.unable && !trial { // no runner is able, and each goes on with its share
		r.sick.Store(&err)
		return
	}
	if a.since.IsZero() {
		a.since = now
	}
	if a.proven && now.Sub(a.since) < unableAfter {
		return
	}
	if r.sick.Load() == nil {
		r.o.Logger.Error("cannot read the inbox: other runners read this runner's partitions", "err", err)
	}
	r.sick.Store(&err)
	r.setUnable(now.Add(a.pause))
	a.pause = min(2*a.pause, lastTrial)
}

// try creates a consumer of no partition and deletes it, to find out whether this runner is able now. The caller has to
// call it again when the channel receives a value.
func (r *Reader) try(ctx context.Context) <-chan time.Time {
	a := &r.share.ability
	if wait := time.Until(a.next); wait > 0 {
		return time.After(wait)
	}
	r.releaseOthers(nil)
	r.share.made++
	c := &Consumer{Name: fmt.Sprintf("%s_%s%d", r.o.ID, r.o.Nonce, r.share.made), Reads: []int{r.partitions},
		Unverified: true}
	_, err := r.o.Queue.Create(ctx, c)
	switch {
	case err == nil:
		if _, err := r.o.Queue.Delete(ctx, c.Name); err != nil {
			r.share.unverified = true // so that the next consumer is created after the deletion of this runner's others
		}
	case !errors.Is(err, ErrOverlap):
		r.refused(err, true)
		return time.After(time.Until(a.next))
	}
	r.setAble()
	r.o.Logger.Info("able to read the inbox")
	return time.After(0)
}

// Health returns nil, or an error while the servers refuse this runner's consumers and other runners read its share.
func (r *Reader) Health() error {
	if err := r.sick.Load(); err != nil {
		return fmt.Errorf("inbox: runner %s cannot read: %w", r.o.ID, *err)
	}
	return nil
}
