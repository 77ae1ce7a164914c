package inbox

import (
	"time"

	"github.com/loopbus/loopbus/bus/inbox/admission"
	"github.com/loopbus/loopbus/schemas"
)

// presses says which kinds continue what has begun: they go before those that may begin a run of a session at rest.
func presses(kind schemas.CommandKind) bool {
	switch kind {
	case schemas.CommandPrompt, schemas.CommandContinue, schemas.CommandCompact, schemas.CommandNavigate,
		schemas.CommandBranch:
		return false
	}
	return true
}

func (in *Inbox) newGate() *admission.Gate {
	return admission.New(in.o.MaxSessions, func(d time.Duration) { time.AfterFunc(d, in.hurry) })
}

// admitted returns what has a flight started once its session may be worked on. It is called with mu held.
func (in *Inbox) admitted(start func(f *flight)) func(f *flight) {
	return func(f *flight) {
		_, kind, _ := in.conn.Subjects().ParseCommand(f.raw.Subject())
		f.ticket = in.gate.Ask(f.queue, presses(kind), time.Now(), func() {
			if !in.isDraining() {
				start(f)
			}
		})
	}
}

// hurry has the gate look whether somebody has waited for too long.
func (in *Inbox) hurry() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.isDraining() {
		in.gate.Hurry(time.Now())
	}
}

// waits reports whether a flight has asked to begin and has not been admitted. mu is held.
func (f *flight) waits() bool { return f.ticket != nil && f.ticket.Waits() }

// hasEntered lets another session be brought in. mu is held.
func (in *Inbox) hasEntered(f *flight) {
	if f.ticket != nil {
		in.gate.Entered(f.ticket, time.Now())
	}
}

// hasEnded gives the place of a flight, at work or in the line, to another one. mu is held.
func (in *Inbox) hasEnded(f *flight) {
	in.release(f)
	if f.ticket != nil {
		in.gate.Done(f.ticket, time.Now())
	}
}

// rests gives the place of a flight to another one while it waits to be tried again: sessions that fail must not keep
// the others out.
func (in *Inbox) rests(f *flight, d time.Duration) {
	if d == 0 {
		return
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gate.Pause(f.ticket, time.Now())
}

func (in *Inbox) resumes(f *flight) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.gate.Resume(f.ticket)
}

// waiting is how many sessions wait for their place.
func (in *Inbox) waiting() int {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.gate.Waiting()
}
