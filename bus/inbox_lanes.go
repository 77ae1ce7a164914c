package bus

import (
	"context"
	"slices"
	"sync"
	"time"
)

// lanes lets the messages of each session in one after the other, in the order of the stream. Watermill handles every
// message on a goroutine of its own; the lane is what keeps the order of the queue.
//
// A message that fails before it has entered, or that was delivered and not received, holds its session up until it is
// back, or for a while in case it went elsewhere, so that those behind it do not pass. Only sessions with a message in
// hand or held up have a lane.
type lanes struct {
	mu        sync.Mutex
	bySession map[string]*lane
}

type lane struct {
	turn    *ticket     // the one that may enter
	waiting []*ticket   // those behind it, in the order of the stream
	awaited []uint64    // sequences of messages that are to come (back) before what is behind them, in order
	timer   *time.Timer // set while something is awaited: when that is given up
	until   time.Time   // when the timer fires
}

// ticket is a place in a lane.
type ticket struct {
	lanes   *lanes
	session string
	seq     uint64
	called  chan struct{} // closed when it is its turn; nil if it was so from the start
	left    bool          // guarded by lanes.mu
}

func newLanes() *lanes { return &lanes{bySession: map[string]*lane{}} }

// join returns a place before everything of the session that comes later in the stream and has not been called yet.
func (ls *lanes) join(session string, seq uint64) *ticket {
	t := &ticket{lanes: ls, session: session, seq: seq}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.of(session)
	l.arrived(seq)
	if l.turn == nil && l.mayEnter(seq) {
		l.turn = t
		return t
	}
	t.called = make(chan struct{})
	at, _ := slices.BinarySearchFunc(l.waiting, seq, func(w *ticket, seq uint64) int {
		if w.seq < seq {
			return -1
		}
		return 1
	})
	l.waiting = slices.Insert(l.waiting, at, t)
	return t
}

// await lets nobody in who is behind one of the given messages, until that one has joined or d is over.
func (ls *lanes) await(session string, seqs []uint64, d time.Duration) {
	if len(seqs) == 0 {
		return
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.hold(session, ls.of(session), seqs, d)
}

func (ls *lanes) of(session string) *lane {
	l := ls.bySession[session]
	if l == nil {
		l = &lane{}
		ls.bySession[session] = l
	}
	return l
}

// wait returns nil when it is the ticket's turn, or errGivenBack once stop is closed. The ticket has to leave in any case.
func (t *ticket) wait(ctx context.Context, stop <-chan struct{}) error {
	if t.called == nil {
		return nil
	}
	select {
	case <-t.called:
		return nil
	case <-stop:
		return errGivenBack
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// leave gives up the place, so that the next may enter; only the first call counts. With a hold, the message has failed
// and is expected back within it: nobody behind it enters before.
func (t *ticket) leave(hold time.Duration) {
	t.lanes.mu.Lock()
	defer t.lanes.mu.Unlock()
	if t.left {
		return
	}
	t.left = true
	l := t.lanes.bySession[t.session]
	switch {
	case l.turn != t: // it gave up waiting
		l.waiting = slices.DeleteFunc(l.waiting, func(w *ticket) bool { return w == t })
	case hold > 0 && !slices.ContainsFunc(l.waiting, func(w *ticket) bool { return w.seq == t.seq }):
		l.turn = nil
		t.lanes.hold(t.session, l, []uint64{t.seq}, hold)
	default:
		l.turn = nil
	}
	l.next()
	t.lanes.drop(t.session, l)
}

// hold lets nobody in for d who is behind one of seqs.
func (ls *lanes) hold(session string, l *lane, seqs []uint64, d time.Duration) {
	l.awaited = append(l.awaited, seqs...)
	slices.Sort(l.awaited)
	l.awaited = slices.Compact(l.awaited)
	if until := time.Now().Add(d); until.After(l.until) {
		l.until = until
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	var timer *time.Timer
	timer = time.AfterFunc(time.Until(l.until), func() {
		ls.mu.Lock()
		defer ls.mu.Unlock()
		if l.timer == timer {
			l.release()
			l.next()
			ls.drop(session, l)
		}
	})
	l.timer = timer
}

func (ls *lanes) drop(session string, l *lane) {
	if l.turn == nil && l.timer == nil && len(l.waiting) == 0 {
		delete(ls.bySession, session)
	}
}

// arrived says that a message need not be awaited any longer.
func (l *lane) arrived(seq uint64) {
	if at, ok := slices.BinarySearch(l.awaited, seq); ok {
		l.awaited = slices.Delete(l.awaited, at, at+1)
	}
	if len(l.awaited) == 0 {
		l.release()
	}
}

// release awaits nothing any longer.
func (l *lane) release() {
	if l.timer != nil {
		l.timer.Stop()
	}
	l.awaited, l.timer, l.until = nil, nil, time.Time{}
}

// mayEnter reports whether nothing is awaited before a message.
func (l *lane) mayEnter(seq uint64) bool { return len(l.awaited) == 0 || seq <= l.awaited[0] }

// next calls the first of those waiting, if it may enter and nobody else does.
func (l *lane) next() {
	if l.turn == nil && len(l.waiting) > 0 && l.mayEnter(l.waiting[0].seq) {
		l.turn = l.waiting[0]
		l.waiting = slices.Delete(l.waiting, 0, 1)
		close(l.turn.called)
	}
}
