package reader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/schemas"
)

const (
	minRetry = 20 * time.Millisecond // before a share that could not be read is tried again; it doubles
	maxRetry = time.Second
	// gatherTime is between two checks whether partitions have become idle that other runners should read, so that
	// several of them move with one new consumer.
	gatherTime = 100 * time.Millisecond
	ownsLimit  = 4 * time.Second // for the answer whether a session is still this runner's
)

// knownAfter is how long after the creation of a consumer this runner may not know yet that another one reads one of
// its partitions: some heartbeats.
const knownAfter = time.Second

// A Consumer delivers the messages of a runner's partitions until the share changes or ownership becomes unverified.
type Consumer struct {
	Name  string
	Reads []int // partitions, in order
	// Unverified is true if nobody knows what the consumer before has delivered.
	Unverified bool
	// Clustered is set by [Queue.Create]: the servers may let another runner's consumer have one of the partitions for a
	// moment, if both are created at once.
	Clustered bool

	backlog uint64    // messages that were stored when it was created
	suspect bool      // a lost runner may have started these
	created time.Time // the time just before

	// Guarded by the Reader's lock.
	received uint64 // deliveries
	acked    uint64 // acknowledgements sent
	broken   error  // why it has to be replaced
	shared   []int  // partitions that another runner has read too
	// settled has the newest message of each session that was settled here since remembers, and settledBefore those of
	// the time before.
	settled, settledBefore map[string]uint64
	remembers              time.Time
	// What the server had delivered, and this runner acknowledged, at the last check.
	checked, checkedAcks uint64
}

var (
	errShared  = errors.New("another runner has read some of the partitions too")
	errMissing = errors.New("a delivery is missing")
)

// share is what the goroutine of [Reader.Run] remembers between two calls of reconcile.
type share struct {
	made       int       // consumers that were requested
	lost       int       // View.Lost when the last one was created, -1 before
	leaveBy    time.Time // when busy partitions of other runners are left; zero if there are none
	shared     bool      // another runner reports that it reads one of the partitions too
	unverified bool      // another runner may have read the partitions since they were read here
	retry      time.Duration
	overlap    bool // the last attempt has failed because another consumer has one of the partitions
	ability    ability
}

// Break has consumer c, or the one in use if c is nil, replaced because of why. It does nothing if c is not in use.
func (r *Reader) Break(c *Consumer, why error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c == nil {
		c = r.consumer
	}
	r.breakLocked(c, why)
}

func (r *Reader) breakLocked(c *Consumer, why error) {
	if c == nil || c != r.consumer || c.broken != nil {
		return
	}
	c.broken = why
	select {
	case r.poke <- struct{}{}:
	default:
	}
}

// reconcile replaces the consumer if it is broken or does not read the partitions that it should. The caller has to
// call it again when the returned channel, nil for never, receives a value.
func (r *Reader) reconcile(ctx context.Context) (again <-chan time.Time) {
	view, s := r.o.Members.View(), &r.share
	r.mu.Lock()
	now := r.consumer
	s.checkOverlap(view, now)
	broken := now == nil || now.broken != nil
	wants, leaving := r.wants(view, now)
	r.mu.Unlock()
	if leaving {
		again = time.After(gatherTime)
	}
	if s.ability.unable && now == nil && len(wants) == 0 {
		return r.try(ctx)
	}
	if !broken && slices.Equal(wants, now.Reads) {
		return again
	}
	if now != nil && broken {
		r.o.Logger.Warn("replacing the consumer of the inbox", "reason", now.broken)
		if errors.Is(now.broken, errMissing) || errors.Is(now.broken, errSkipped) {
			r.o.Queue.Clear()
		}
		s.unverified = true
	}
	if err := r.replace(ctx, view, now, wants); err != nil {
		s.retry = min(max(2*s.retry, minRetry), maxRetry)
		s.unverified, s.overlap = true, errors.Is(err, ErrOverlap)
		r.o.Members.SetReads(nil)
		// An overlap is logged only if it lasts: the other runner needs a moment to leave the partition.
		if ctx.Err() == nil && (!s.overlap || s.retry == maxRetry) &&
			r.failures.allow("", err.Error(), time.Now()) {
			r.o.Logger.Warn("cannot read the inbox, trying again", "err", err)
		}
		return time.After(s.retry)
	}
	s.retry, s.overlap = 0, false
	if len(wants) > 0 {
		r.created()
	}
	r.setReady()
	return again
}

// mayShare reports whether another runner may settle what the consumer has delivered. mu is held.
func (c *Consumer) mayShare(partition int) bool {
	return slices.Contains(c.shared, partition) || c.Clustered && time.Since(c.created) < knownAfter
}

// untilKnown returns for how long it is not known whether another runner reads the partition of a delivery.
func (r *Reader) untilKnown(d *delivery) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !d.consumer.Clustered {
		return 0
	}
	return time.Until(d.consumer.created.Add(knownAfter))
}

// checkOverlap breaks the consumer when another runner stops reading one of its partitions. The servers of a cluster
// may allow two consumers to overlap that are created at the same moment, and then each runner settles messages that
// the other one does not receive.
func (s *share) checkOverlap(view membership.View, now *Consumer) {
	if now == nil {
		s.shared = false
		return
	}
	shared := slices.DeleteFunc(slices.Clone(now.Reads), func(n int) bool { return view.Reads[n] == "" })
	if s.shared && len(shared) == 0 && now.broken == nil {
		now.broken = errShared
	}
	s.shared = len(shared) > 0
	for _, n := range shared {
		if !slices.Contains(now.shared, n) {
			now.shared = append(now.shared, n)
		}
	}
}

// wants returns the partitions to read, in order: the runner's own, except those that another runner still reads; and
// those that it reads, are another runner's and are busy, for HandoverWait. leaving reports whether there are any of
// these. mu is held.
func (r *Reader) wants(view membership.View, now *Consumer) (wants []int, leaving bool) {
	var reads []int
	if now != nil && now.broken == nil {
		reads = now.Reads
	}
	busy := map[int]bool{}
	for _, s := range r.sessions {
		busy[s.partition] = true
	}
	if r.share.leaveBy.IsZero() {
		r.share.leaveBy = time.Now().Add(r.o.HandoverWait)
	}
	for n, owner := range assign(r.partitions, view.Readers) {
		read := slices.Contains(reads, n)
		switch {
		case owner == r.o.ID && (read || view.Reads[n] == ""):
			wants = append(wants, n)
		case owner != r.o.ID && read && busy[n] && time.Now().Before(r.share.leaveBy):
			wants, leaving = append(wants, n), true
		}
	}
	if !leaving {
		r.share.leaveBy = time.Time{}
	}
	return wants, leaving
}

// replace deletes the consumer in use and creates one for the partitions wanted.
func (r *Reader) replace(ctx context.Context, view membership.View, now *Consumer, wants []int) error {
	s, began := &r.share, time.Now()
	found, err := r.deleteConsumer(ctx)
	if err != nil {
		return err
	}
	s.unverified = s.unverified || !found
	r.releaseOthers(wants)
	suspect := view.Lost != s.lost
	if suspect || s.unverified { // also if nothing is wanted: an orphan would keep other runners from the partitions
		var refused []int
		if s.overlap && s.retry == maxRetry {
			refused = wants
		}
		if err := r.deleteOrphans(ctx, view, refused); err != nil {
			return err
		}
	}
	if now == nil && len(wants) == 0 {
		s.unverified = false // no session is at work that another runner may have
		r.o.Members.SetReads(nil)
		return nil
	}
	next := &Consumer{Reads: wants, Unverified: s.unverified, suspect: suspect}
	if len(wants) > 0 {
		if err := r.consume(ctx, next); err != nil {
			return err
		}
	}
	s.unverified, s.lost = false, view.Lost
	r.o.Members.SetReads(wants)
	r.o.Count(Takeover)
	r.o.Logger.Info("reading partitions", "count", len(wants), "suspect", next.suspect,
		"took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// consume creates a consumer and starts to receive from it. If ownership is unverified it verifies every session at
// work; a session whose ownership is not confirmed is released.
func (r *Reader) consume(ctx context.Context, c *Consumer) (err error) {
	r.share.made++
	c.Name, c.created = fmt.Sprintf("%s_%s%d", r.o.ID, r.o.Nonce, r.share.made), time.Now()
	if c.backlog, err = r.o.Queue.Create(ctx, c); err != nil {
		r.refused(err, false)
		return err
	}
	r.mu.Lock()
	r.consumer = c
	if c.Unverified {
		r.verify(func(err error) bool { return err != nil })
	}
	r.mu.Unlock()
	if err = r.o.Queue.Consume(c); err != nil {
		r.Break(c, err)
	}
	return err
}

// verify asks the handler for every session at work whether it is still this runner's, and releases the session if lost
// is true of the answer. It does not wait. mu is held.
func (r *Reader) verify(lost func(answer error) bool) {
	for _, s := range r.sessions {
		if s.name == "" || !s.atWork() {
			continue
		}
		work := s.ctx // ends when the session is released
		r.running.Go(func() {
			ctx, cancel := context.WithTimeout(work, ownsLimit)
			defer cancel()
			if !lost(r.o.Handler.Owns(ctx, s.name)) {
				return
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			if work.Err() == nil {
				r.release(s)
			}
		})
	}
}

// deleteConsumer deletes the consumer in use. Messages stay in flight; acknowledgements have no effect until the next
// consumer has redelivered them. found is false if another runner, or the loss of a server, had deleted the consumer.
func (r *Reader) deleteConsumer(ctx context.Context) (found bool, err error) {
	r.mu.Lock()
	c := r.consumer
	r.consumer = nil
	r.mu.Unlock()
	if c == nil {
		return true, nil
	}
	r.o.Queue.Stop()
	return r.o.Queue.Delete(ctx, c.Name)
}

// releaseOthers releases the sessions of partitions that are no longer read.
func (r *Reader) releaseOthers(reads []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(r.sessions)) {
		if s := r.sessions[key]; s != nil && !slices.Contains(reads, s.partition) {
			r.release(s)
		}
	}
}

// check breaks the consumer if a delivery or an acknowledgement from before the last check has not arrived: nothing
// else shows that it was lost with the leader of the stream. It also verifies the sessions at work: another runner may
// have extended one while its consumer overlapped with this one for a moment. Without the check such a session would
// wait for its model to the end, and only then learn that its append is refused.
func (r *Reader) check(ctx context.Context) {
	r.checkSkipped(ctx)
	r.mu.Lock()
	c := r.consumer
	r.mu.Unlock()
	if c == nil {
		return
	}
	delivered, settled, err := r.o.Queue.Counts(ctx, c.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verify(func(err error) bool { return errors.Is(err, schemas.ErrConflict) })
	switch {
	case errors.Is(err, ErrConsumerNotFound):
		r.breakLocked(c, err)
	case err == nil && (c.received < c.checked || settled < c.checkedAcks):
		r.breakLocked(c, errMissing)
	case err == nil:
		c.checked, c.checkedAcks = delivered, c.acked
	}
}
