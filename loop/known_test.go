package loop_test

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// send has a command accepted, and returns how many events that took.
func send(t *testing.T, l *longSession, id string, data schemas.CommandData) (events int) {
	t.Helper()
	raw, err := schemas.Marshal(data)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range loop.Accept(l.s, schemas.Command{ID: id, Session: "s1", Data: data}, raw, loop.Rules{}) {
		l.applyOf(e, id)
		events++
	}
	return events
}

// The message that woke a session is in the inbox until the session rests, and may be redelivered: that changes
// nothing, however many commands came after it. The session forgets only commands from before it was idle.
func TestCommandsAreKnownUntilTheSessionRests(t *testing.T) {
	t.Parallel()
	l := &longSession{t: t, s: &loop.State{Session: "s1"}}
	first := &schemas.Prompt{Input: schemas.Input{Text: "go"}}
	send(t, l, "p1", first)
	for n := range 5 * loop.MaxKnown {
		send(t, l, fmt.Sprint("n", n), &schemas.Name{Name: fmt.Sprint(n)})
	}
	if n := send(t, l, "p1", first); n != 0 {
		t.Fatalf("the prompt that woke the session was taken in again: %d events", n)
	}
	l.rest(100_000)
	for n := range loop.MaxKnown {
		send(t, l, fmt.Sprint("l", n), &schemas.Name{Name: fmt.Sprint(n)})
	}
	for n := range loop.MaxKnown {
		if !l.s.Known.Has(fmt.Sprint("l", n)) {
			t.Fatalf("of %d commands one of the newest %d is forgotten", l.n, loop.MaxKnown)
		}
	}
	if l.s.Known.Has("p1") {
		t.Error("a command is remembered for ever")
	}
	if size := len(marshal(t, l.s)); size > 12*loop.MaxKnown+4000 {
		t.Errorf("the state has %d bytes", size)
	}
}

// Who keeps the event of a command without its data, as the answers about newest commands do, does not keep the data.
func TestTheTimeOfACommandKeepsNothingElse(t *testing.T) {
	t.Parallel()
	var kept *time.Time
	freed := make(chan struct{})
	func() {
		data := &schemas.Custom{CustomType: "note", Data: []byte(`"x"`)}
		runtime.SetFinalizer(data, func(*schemas.Custom) { close(freed) })
		c := schemas.Command{ID: "c1", Session: "s1", Time: time.Now(), Data: data}
		events := loop.Accept(&loop.State{Session: "s1"}, c, data.Data, loop.Rules{})
		kept = events[0].(*schemas.CommandAccepted).Time
	}()
	wantFreed(t, freed, "the time of a command keeps its data")
	runtime.KeepAlive(kept)
}

// wantFreed waits until a finalizer has closed freed, and else says what is wrong.
func wantFreed(t *testing.T, freed <-chan struct{}, wrong string) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); {
		runtime.GC()
		select {
		case <-freed:
			return
		case <-time.After(10 * time.Millisecond):
		}
	}
	t.Error(wrong)
}
