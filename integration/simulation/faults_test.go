package simulation_test

import (
	"time"
)

// fault is what becomes of a runner after a while.
type fault int

const (
	crashes fault = iota
	sleeps
	stops
	blinks // its connection is cut for a while
	missed // the others take it for dead, and it is not
)

var faults = []weighted[fault]{{30, crashes}, {35, sleeps}, {15, stops}, {10, blinks}, {10, missed}}

// keep has one runner at a time run in a slot, and lets each fail, until the world is healed. The last one stays; it is
// sent to last.
func (w *world) keep(slot int, last chan<- *runner) {
	time.Sleep(time.Duration(slot) * time.Microsecond) // no two at the same moment
	n := 0
	r := w.startRunner(slot, n)
	for {
		d := w.draw("slot " + string(rune('0'+slot)))
		time.Sleep(d.about(8 * time.Second))
		if !w.faulty() {
			last <- r
			return
		}
		name := r.name
		switch choose(d, faults) {
		case sleeps:
			w.note("%s: suspended", r.name)
			r.freeze()
			time.Sleep(suspension(d))
			w.note("%s: goes on", r.name)
			r.thaw()
			continue
		case blinks:
			cut := d.between(10*time.Millisecond, 3*time.Second)
			w.note("%s: cut off for %s", r.name, cut)
			w.running.Go(func() { w.miss(name) })
			r.blink(cut)
			continue
		case missed:
			w.miss(r.name)
			continue
		case crashes:
			w.note("%s: crashes", r.name)
			r.die()
			w.running.Go(func() { w.miss(name) })
		case stops:
			w.note("%s: stops", r.name)
			r.stop()
		}
		<-r.done
		time.Sleep(d.about(3 * time.Second))
		n++
		r = w.startRunner(slot, n)
	}
}

// suspension is a time about as long as others wait before they take over, or up to half a minute.
func suspension(d draw) time.Duration {
	if d.percent(40) {
		return d.between(500*time.Millisecond, 2*time.Second)
	}
	return d.about(6 * time.Second)
}
