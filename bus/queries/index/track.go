package index

import (
	"context"
	"sync"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// Delays between an event and the write of the entry. What people wait for, the end of a run or an approval, is written
// at once; other changes are combined. An entry is written at most every quarter of [Options.Interval].
const (
	delay       = 200 * time.Millisecond
	urgentDelay = 25 * time.Millisecond
	unstored    = 20 * time.Millisecond // until an append in flight is checked again
)

// Track folds the events of a session that this process drives, and writes its entry once they are stored. Its
// methods are safe for concurrent use and do not block.
type Track struct {
	ix      *Index
	session string
	stored  func() (seq, stream uint64)

	mu      sync.Mutex
	entry   *Entry // nil until the earlier part of the log is known
	seq     uint64 // of the newest event
	dirty   bool   // there are changes to write
	urgent  bool
	writing bool
	closed  bool
	timer   *time.Timer
	due     time.Time
	last    time.Time // time of the last write
	recent  recent
	search  pace
}

// Track starts to follow a session whose log was opened at event seq. stored returns the end of the log that is known
// to be stored. An earlier track of the session ends.
func (ix *Index) Track(session string, seq uint64, stored func() (seq, stream uint64)) *Track {
	t := &Track{ix: ix, session: session, stored: stored, seq: seq}
	ix.mu.Lock()
	old := ix.tracks[session]
	if _, stream := stored(); seq == 0 {
		t.entry = new(Entry)
	} else if e := ix.list.get(session); e != nil && e.Stream == stream && e.Summary.Seq == seq {
		t.entry = e.clone()
	}
	ix.tracks[session] = t
	ix.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return t
}

// Appended folds the next event, which the log has accepted. It retains the event only as far as [Index.Outcome]
// needs it.
func (t *Track) Appended(e schemas.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seq = e.Seq
	t.recent.add(e)
	if t.entry != nil && !t.entry.Apply(e) {
		t.entry = nil
	}
	t.dirty = true
	switch e.Data.(type) {
	case *schemas.AgentEnd, *schemas.ApprovalRequested, *schemas.ApprovalResolved:
		t.urgent = true
	}
	t.schedule()
}

// Close ends the track without waiting: what is stored and not written yet is written in the background. What is not
// stored yet is found when the index is compared with the log.
func (t *Track) Close() {
	t.ix.forget(t)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.closed = true
	if t.timer != nil {
		t.timer.Stop()
	}
	if t.dirty && !t.writing {
		t.ix.work.Go(func() { t.flush(t.ix.writing) })
	}
}

// schedule schedules the next write. mu is held.
func (t *Track) schedule() {
	if !t.dirty || t.writing || t.closed {
		return
	}
	now := time.Now()
	due := later(now.Add(delay), t.last.Add(t.ix.o.Interval))
	if t.urgent {
		due = later(now.Add(urgentDelay), t.last.Add(t.ix.o.Interval/4))
	}
	if t.due.IsZero() || due.Before(t.due) {
		t.at(now, due)
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// at sets the timer. mu is held.
func (t *Track) at(now, due time.Time) {
	if t.due = due; t.timer == nil {
		t.timer = time.AfterFunc(due.Sub(now), t.fire)
		return
	}
	t.timer.Reset(due.Sub(now))
}

// fire is called by the timer.
func (t *Track) fire() {
	if t.ix.begin() {
		defer t.ix.work.Done()
		t.flush(t.ix.writing)
	}
}

// flush writes the entry if the events that it is folded from are stored. Otherwise it retries soon.
func (t *Track) flush(ctx context.Context) {
	e, seq := t.begin()
	if seq == 0 {
		return
	}
	release := t.ix.slot(ctx)
	if release == nil {
		t.end(nil, context.Cause(ctx))
		return
	}
	defer release()
	if e != nil {
		t.end(nil, t.ix.write(ctx, e))
		return
	}
	base, err := t.ix.repair(ctx, t.session, 0)
	t.end(base, err)
}

// begin returns the entry to write, or the sequence up to which the log must be read if the entry is not known yet; 0
// if there is nothing to do now.
func (t *Track) begin() (e *Entry, seq uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due = time.Time{}
	if !t.dirty || t.writing {
		return nil, 0
	}
	seq, stream := t.stored()
	if seq != t.seq {
		if now := time.Now(); !t.closed {
			t.at(now, now.Add(unstored))
		}
		return nil, 0
	}
	if t.entry != nil {
		e = t.entry.clone()
		e.Stream = stream
	}
	t.writing, t.dirty, t.urgent = true, false, false
	return e, seq
}

// end processes the result of a write. base, if not nil, is the entry as read from the log.
func (t *Track) end(base *Entry, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.writing, t.last = false, time.Now()
	if err != nil {
		t.dirty = true
		t.ix.o.Logger.Debug("entry of the index not written", "session", t.session, "seq", t.seq, "err", err)
	}
	if base != nil && base.Summary.Status != schemas.SessionDamaged {
		if base.Summary.Seq == t.seq {
			t.entry = base.clone()
		} else {
			t.dirty = true
		}
	}
	// If the track was closed during this write, the changes that arrived in the meantime are written now.
	if t.closed && t.dirty && err == nil && (base == nil || base.Summary.Seq < t.seq) {
		t.ix.work.Go(func() { t.flush(t.ix.writing) })
	}
	t.schedule()
}

// begin counts a write in progress, unless the index is closed.
func (ix *Index) begin() bool {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if !ix.stopped {
		ix.work.Add(1)
	}
	return !ix.stopped
}

func (ix *Index) forget(t *Track) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	if ix.tracks[t.session] == t {
		delete(ix.tracks, t.session)
	}
}
