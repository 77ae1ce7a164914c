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
	// A runner that cannot read tries whether it can again after firstTrial. The time doubles each time it was wrong.
	firstTrial = time.Second
	lastTrial  = time.Minute
)

// ability is whether the servers create consumers for this runner. A runner may be live and not able to read: its
// credentials do not allow it, or the account has a limit. The share of such a runner would be read by nobody, so its
// heartbeats say that it is unable, and the others leave it out. A runner that has just started is unable until it has
// created a consumer, unless no runner is able. Only the goroutine of [Reader.Run] uses it.
type ability struct {
	unable bool
	since  time.Time     // of the first refusal of several in a row; zero after a success
	pause  time.Duration // before the next trial
}

// setUnable tells the other runners to read this runner's share.
func (r *Reader) setUnable() {
	a := &r.share.ability
	a.unable, a.pause = true, min(max(2*a.pause, firstTrial), lastTrial)
	r.o.Members.SetUnable(true)
}

// able tells the other runners to leave this runner its share.
func (r *Reader) able() {
	a := &r.share.ability
	a.since = time.Time{}
	if a.unable {
		a.unable = false
		r.o.Members.SetUnable(false)
		r.sick.Store(nil)
	}
}

// refused counts a refusal of a consumer. A consumer that overlaps with another one was not refused for this runner's
// sake: no other runner could create it either.
func (r *Reader) refused(err error) {
	a, now := &r.share.ability, time.Now()
	switch {
	case errors.Is(err, ErrOverlap):
	case a.since.IsZero():
		a.since = now
	case now.Sub(a.since) > unableAfter && (!a.unable || r.sick.Load() == nil):
		r.setUnable()
		r.sick.Store(&err)
		r.o.Logger.Error("cannot read the inbox: other runners read this runner's partitions", "err", err)
	}
}

// tryCreate creates a consumer of no partition and deletes it, to find out whether this runner is able now. The caller
// has to call it again when the channel receives a value.
func (r *Reader) tryCreate(ctx context.Context) <-chan time.Time {
	r.releaseOthers(nil)
	r.share.made++
	c := &Consumer{Name: fmt.Sprintf("%s_%s%d", r.o.ID, r.o.Nonce, r.share.made), Reads: []int{r.partitions}}
	_, err := r.o.Queue.Create(ctx, c)
	switch {
	case err == nil:
		if _, err := r.o.Queue.Delete(ctx, c.Name); err != nil {
			r.share.unverified = true // so that the next consumer is created after the deletion of this runner's others
		}
	case !errors.Is(err, ErrOverlap):
		r.refused(err)
		return time.After(max(r.share.ability.pause, firstTrial))
	}
	r.able()
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
