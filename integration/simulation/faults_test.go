package simulation_test

import (
	"strings"
	"time"
)

// fault is a fault of a runner.
type fault int

const (
	crashes fault = iota
	sleeps
	stops
	blinks // its connection is cut for some time
	missed // the other runners count it as lost although it is alive
)

var faults = []weighted[fault]{{30, crashes}, {35, sleeps}, {15, stops}, {10, blinks}, {10, missed}}

// keep runs one runner at a time in a slot and injects faults into it until the world is healed. Then it sends the
// runner that is running to last.
func (w *world) keep(slot int, last chan<- *runner) {
	time.Sleep(time.Duration(slot) * time.Microsecond) // no two start at the same time
	n := 0
	r := w.start(slot, n)
	for {
		d := w.draw("slot " + string(rune('0'+slot)))
		time.Sleep(d.about(8 * time.Second))
		select {
		case <-r.done: // a runner that cannot announce itself ends with an error; a supervisor starts another one
			n++
			r = w.start(slot, n)
		default:
		}
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
			w.note("%s: continues", r.name)
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
		r = w.start(slot, n)
	}
}

// start starts a runner. The servers sometimes create no consumers for one, never for those of all slots.
func (w *world) start(slot, n int) *runner {
	r := w.startRunner(slot, n)
	if d := w.draw("refuse " + r.name); slot == 0 && d.percent(25) {
		time.AfterFunc(d.about(8*time.Second), func() { w.refuse(r, d) })
	}
	return r
}

// refuse has the servers create no consumers for a runner, for some time or for as long as it runs, and deletes the one
// that it has.
func (w *world) refuse(r *runner, d draw) {
	if !w.faulty() {
		return
	}
	w.note("%s: is refused", r.name)
	r.refused.Store(true)
	for _, name := range w.queue.names() {
		if strings.HasPrefix(name, r.name+"_") {
			w.queue.remove(name, 0)
		}
	}
	if d.percent(60) {
		time.AfterFunc(d.about(15*time.Second), func() {
			w.note("%s: is not refused any more", r.name)
			r.refused.Store(false)
		})
	}
}

// suspension draws a time that is about as long as other runners wait before they take over, or up to half a minute.
func suspension(d draw) time.Duration {
	if d.percent(40) {
		return d.between(500*time.Millisecond, 2*time.Second)
	}
	return d.about(6 * time.Second)
}
