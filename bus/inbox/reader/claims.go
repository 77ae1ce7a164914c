package reader

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/inbox/membership"
	"github.com/loopbus/loopbus/schemas"
)

const (
	minReconcile = 20 * time.Millisecond // before a share that could not be had is tried again
	maxReconcile = time.Second
	// gatherTime is how often partitions that have become idle are left, so that they are left together.
	gatherTime = 100 * time.Millisecond
	ownsLimit  = 4 * time.Second // of asking whether a session is still this runner's
)

// A Consumer delivers the messages of a runner's partitions, from its making to the next change of the share, or the
// first loss that leaves ownership unverified.
type Consumer struct {
	Name  string
	Reads []int // partitions, in order
	// Unverified says that what the one before has delivered is not known.
	Unverified bool

	waiting uint64 // messages that were there when it was made
	suspect bool   // a lost runner may have begun them

	// Guarded by the Reader's lock.
	received uint64 // deliveries
	acked    uint64 // acknowledgements sent
	broken   error  // why it has to be made anew
	// What the last check has seen: deliveries by the server, and acknowledgements.
	checked, checkedAcks uint64
}

var (
	errShared  = errors.New("another runner has read some of the partitions too")
	errMissing = errors.New("a delivery is missing")
)

// claims is what a Reader remembers between two looks at its share.
type claims struct {
	made       int       // consumers
	lost       int       // View.Lost when the last one was made, -1 before
	leaveBy    time.Time // when partitions that others should read are left, idle or not; zero if there are none
	shared     bool      // another runner said that it reads what this one does
	unverified bool      // since then another runner may have read what this one did
	pause      time.Duration
}

// Break says that a consumer, nil for the one in use, has to be followed by another.
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

// reconcile makes a new consumer if the share is another than what is read, or what it delivers has to be verified.
// again says when to look again unless something happens before; nil is never.
func (r *Reader) reconcile(ctx context.Context) (again <-chan time.Time) {
	view, c := r.o.Members.View(), &r.claims
	r.mu.Lock()
	now := r.consumer
	c.noticeOverlap(view, now)
	broken := now == nil || now.broken != nil
	wants, leaving := r.wants(view, now)
	r.mu.Unlock()
	if leaving {
		again = time.After(gatherTime)
	}
	if !broken && slices.Equal(wants, now.Reads) {
		return again
	}
	if now != nil && broken {
		r.o.Logger.Warn("reading the inbox anew", "reason", now.broken)
		c.unverified = true
	}
	if err := r.replace(ctx, view, now, wants); err != nil {
		c.pause = min(max(2*c.pause, minReconcile), maxReconcile)
		c.unverified = true
		r.o.Members.Reads(nil)
		// That another runner has not left a partition yet is no trouble for a while.
		if ctx.Err() == nil && (!errors.Is(err, ErrOverlap) || c.pause == maxReconcile) &&
			r.complaints.first("", err.Error(), time.Now()) {
			r.o.Logger.Warn("cannot read the inbox, trying again", "err", err)
		}
		return time.After(c.pause)
	}
	c.pause = 0
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
	return again
}

// noticeOverlap has what is begun verified when another runner that read the same has stopped: servers of a cluster may
// let two consumers overlap that are made at once, and each runner settles what the other does not receive.
func (c *claims) noticeOverlap(view membership.View, now *Consumer) {
	shared := now != nil && slices.ContainsFunc(now.Reads, func(n int) bool { return view.Reads[n] != "" })
	if c.shared && !shared && now != nil && now.broken == nil {
		now.broken = errShared
	}
	c.shared = shared
}

// wants are the partitions to read: the share, but for what another runner still reads; and of what is read, what
// another runner should read but is not idle, for HandoverWait. leaving says that there is such. mu is held.
func (r *Reader) wants(view membership.View, now *Consumer) (wants []int, leaving bool) {
	share := share(r.partitions, view.IDs, r.o.ID)
	var reads []int
	if now != nil && now.broken == nil {
		reads = now.Reads
	}
	for _, n := range share {
		if view.Reads[n] == "" || slices.Contains(reads, n) {
			wants = append(wants, n)
		}
	}
	if r.claims.leaveBy.IsZero() {
		r.claims.leaveBy = time.Now().Add(r.o.HandoverWait)
	}
	busy := map[int]bool{}
	for _, s := range r.sessions {
		busy[s.partition] = true
	}
	for _, n := range reads {
		if !slices.Contains(share, n) && busy[n] && time.Now().Before(r.claims.leaveBy) {
			wants, leaving = append(wants, n), true
		}
	}
	if !leaving {
		r.claims.leaveBy = time.Time{}
	}
	slices.Sort(wants)
	return wants, leaving
}

// replace deletes the consumer in use and makes one of the partitions wanted.
func (r *Reader) replace(ctx context.Context, view membership.View, now *Consumer, wants []int) error {
	c, began := &r.claims, time.Now()
	found, err := r.deleteOwn(ctx)
	if err != nil {
		return err
	}
	c.unverified = c.unverified || !found
	r.leaveOthers(wants)
	suspect := view.Lost != c.lost
	if suspect || c.unverified { // also where nothing is wanted: what is left behind would keep the others out
		if err := r.sweep(ctx, view.IDs); err != nil {
			return err
		}
	}
	if now == nil && len(wants) == 0 {
		c.unverified = false // nothing is at work that another runner may have
		r.o.Members.Reads(nil)
		return nil
	}
	next := &Consumer{Reads: wants, Unverified: c.unverified, suspect: suspect}
	if len(wants) > 0 {
		if err := r.read(ctx, next); err != nil {
			return err
		}
	}
	c.unverified, c.lost = false, view.Lost
	r.o.Members.Reads(wants)
	r.o.Count(Takeover)
	r.o.Logger.Info("reading partitions", "count", len(wants), "suspect", next.suspect,
		"took", time.Since(began).Round(time.Millisecond).String())
	return nil
}

// read makes a consumer and begins to receive. If ownership is unverified it has every session at work verified.
func (r *Reader) read(ctx context.Context, c *Consumer) (err error) {
	r.claims.made++
	c.Name = fmt.Sprintf("%s_%s%d", r.o.ID, r.o.Nonce, r.claims.made)
	if c.waiting, err = r.o.Queue.Create(ctx, c); err != nil {
		return err
	}
	r.mu.Lock()
	r.consumer = c
	if c.Unverified {
		r.verifyAll(func(err error) bool { return err != nil })
	}
	r.mu.Unlock()
	if err = r.o.Queue.Consume(c); err != nil {
		r.Break(c, err)
	}
	return err
}

// verifyAll asks for every session at work whether it is still this runner's: another one may have had it meanwhile. If
// the answer says that it is lost, it is left, and begun anew. mu is held.
func (r *Reader) verifyAll(lost func(answer error) bool) {
	for _, s := range r.sessions {
		if work := s.ctx; s.name != "" && s.atWork() {
			r.running.Go(func() { r.verify(work, s, lost) })
		}
	}
}

// verify asks for one. work is the context of its deliveries, which ends when it is left.
func (r *Reader) verify(work context.Context, s *session, lost func(answer error) bool) {
	ctx, cancel := context.WithTimeout(work, ownsLimit)
	defer cancel()
	if !lost(r.o.Handler.Owns(ctx, s.name)) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if work.Err() == nil {
		r.leave(s)
	}
}

// deleteOwn deletes the consumer in use. What is in flight stays so; acknowledgements have no effect until it is
// delivered again. found is false if it was gone: another runner has taken over, or a server was lost.
func (r *Reader) deleteOwn(ctx context.Context) (found bool, err error) {
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

// sweep deletes the consumers of runners that are not live, and of this one: those that were asked for, and made
// although no answer came.
func (r *Reader) sweep(ctx context.Context, live []string) error {
	names, err := r.o.Queue.Names(ctx)
	for _, name := range names {
		id := name[:max(strings.LastIndexByte(name, '_'), 0)]
		if id != r.o.ID && slices.Contains(live, id) {
			continue
		}
		r.o.Logger.Info("taking over from a runner that is gone", "consumer", name)
		if _, err := r.o.Queue.Delete(ctx, name); err != nil {
			return fmt.Errorf("inbox: delete consumer %s: %w", name, err)
		}
	}
	return err
}

// leaveOthers leaves the sessions of partitions that are not read any more.
func (r *Reader) leaveOthers(reads []int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(r.sessions)) {
		if s := r.sessions[key]; s != nil && !slices.Contains(reads, s.partition) {
			r.leave(s)
		}
	}
}

// check makes the consumer anew if a delivery or an acknowledgement of before the last check has not arrived: one that
// was lost with a leader would show in nothing else. Nor would it that another runner has had a session for a moment,
// with a consumer that overlapped and is gone: what waits for a model would go on, and be refused at its end.
func (r *Reader) check(ctx context.Context) {
	r.mu.Lock()
	c := r.consumer
	r.mu.Unlock()
	if c == nil {
		return
	}
	delivered, settled, err := r.o.Queue.Counts(ctx, c.Name)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.verifyAll(func(err error) bool { return errors.Is(err, schemas.ErrConflict) })
	switch {
	case errors.Is(err, ErrGone):
		r.breakLocked(c, err)
	case err == nil && (c.received < c.checked || settled < c.checkedAcks):
		r.breakLocked(c, errMissing)
	case err == nil:
		c.checked, c.checkedAcks = delivered, c.acked
	}
}
