package simulation_test

import (
	"slices"
	"time"
)

// lane lets the messages of one session in one after the other, in the order of the queue. What is in the queue before a message and
// not in this runner's hands is waited for: it is with another runner, and comes when that one has lost it. The inbox's
// lock guards it.
type lane struct {
	in      *inbox
	waiting []*delivery // in order
	turn    *delivery   // the one that is entering
	entered []*delivery // those that have, and are not settled
	awaited []uint64    // in order
	timer   *time.Timer // gives up waiting for them
}

// join gives a message its place.
func (l *lane) join(d *delivery, earlier []uint64) {
	l.arrived(d.seq)
	l.await(earlier, waitForEarlier)
	at, _ := slices.BinarySearchFunc(l.waiting, d.seq, func(w *delivery, seq uint64) int {
		if w.seq < seq {
			return -1
		}
		return 1
	})
	l.waiting = slices.Insert(l.waiting, at, d)
	l.next()
}

// await lets nobody in behind these, until they have come or it takes too long.
func (l *lane) await(seqs []uint64, d time.Duration) {
	for _, seq := range seqs {
		if at, found := slices.BinarySearch(l.awaited, seq); !found {
			l.awaited = slices.Insert(l.awaited, at, seq)
		}
	}
	if len(seqs) == 0 {
		return
	}
	if l.timer != nil {
		l.timer.Stop()
	}
	l.timer = time.AfterFunc(d, func() {
		l.in.mu.Lock()
		defer l.in.mu.Unlock()
		l.awaited = nil
		l.next()
	})
}

func (l *lane) arrived(seq uint64) {
	if at, found := slices.BinarySearch(l.awaited, seq); found {
		l.awaited = slices.Delete(l.awaited, at, at+1)
	}
}

// next calls the first, if it may enter.
func (l *lane) next() {
	if l.turn != nil || len(l.waiting) == 0 || len(l.awaited) > 0 && l.awaited[0] < l.waiting[0].seq {
		return
	}
	l.turn, l.waiting = l.waiting[0], l.waiting[1:]
	close(l.turn.called)
}

// enter gives up a message's turn: it has its place in order, and the next may come.
func (l *lane) enter(d *delivery) {
	if l.turn != d {
		return
	}
	l.turn = nil
	l.entered = append(l.entered, d)
	l.next()
}

// settle takes a message out. One that has failed holds back those behind it until it has been delivered again; and so do
// the others that have entered until they are settled, because what has failed it may be failing them.
func (l *lane) settle(d *delivery, failed bool, back time.Duration) {
	same := func(o *delivery) bool { return o == d }
	l.waiting, l.entered = slices.DeleteFunc(l.waiting, same), slices.DeleteFunc(l.entered, same)
	if l.turn == d {
		l.turn = nil
	}
	if failed {
		seqs := []uint64{d.seq}
		for _, o := range l.entered {
			seqs = append(seqs, o.seq)
			l.in.mayPass(d, o)
		}
		l.in.mayPass(d, l.turn)
		l.await(seqs, back)
	} else {
		l.arrived(d.seq)
	}
	l.next()
}
