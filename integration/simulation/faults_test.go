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
)

var faults = []weighted[fault]{{40, crashes}, {40, sleeps}, {20, stops}}

// keep has one runner at a time run in a slot, and lets each fail, until the world is healed. The last one stays; it is sent
// to last.
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
		switch choose(d, faults) {
		case sleeps:
			w.note("%s: suspended", r.name)
			r.freeze()
			time.Sleep(d.about(6 * time.Second))
			w.note("%s: goes on", r.name)
			r.thaw()
			continue
		case crashes:
			w.note("%s: crashes", r.name)
			r.die()
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
