package client_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// elsewhere appends an event whose data of so many bytes, and some, is in the object store.
func (a *author) elsewhere(bytes int) {
	a.t.Helper()
	d := &schemas.ErrorEvent{Code: "big", Message: strings.Repeat("x", bytes)}
	a.seq++
	var c schemas.Commit
	e := schemas.Event{Session: a.session, Seq: a.seq, Source: "/x", Data: d}
	if err := c.Add(&e, nil, a.payload(d)); err != nil {
		a.t.Fatal(err)
	}
	a.store(c.Header(a.hash), c.Payload())
}

// loads returns the requests for payloads.
func (a *author) loads() *nats.Subscription {
	a.t.Helper()
	sub, err := a.c.NATS().SubscribeSync("$JS.API.CONSUMER.CREATE.OBJ_" + schemas.BucketBlobs + ".>")
	if err == nil {
		err = a.c.NATS().Flush()
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = sub.Unsubscribe() }) // what was not taken would hold up the end of the connection
	return sub
}

// A loop asks for room before it requests a payload, and returns it once its caller is done with the event. Without
// room it ends with the caller's error, and requests nothing.
func TestRoomForPayloads(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	_, a, s := start(t)
	a.elsewhere(size)
	a.commit(&schemas.QueueUpdate{})
	loads := a.loads()
	full := errors.New("there is no room")
	for _, err := range s.WithRoom(func(int) (func(), error) { return nil, full }).Watch(bustest.Deadline(t), 1) {
		if !errors.Is(err, full) {
			t.Errorf("without room: %v", err)
		}
	}
	if n, _, err := loads.Pending(); err != nil || n > 0 {
		t.Errorf("%d payloads were requested without room, %v", n, err)
	}
	held := 0
	s = s.WithRoom(func(bytes int) (func(), error) {
		held += bytes
		return func() { held -= bytes }, nil
	})
	for e, err := range s.History(bustest.Deadline(t), 1) {
		if large := e.Seq == 1; err != nil || large != (held > size) || !large && held > 0 {
			t.Errorf("event %d: %d bytes are held, %v", e.Seq, held, err)
		}
	}
	if _, err := loads.NextMsgWithContext(bustest.Deadline(t)); err != nil {
		t.Error(err)
	}
}

// Payloads are loaded in turn: those of one session wait for each other, and no longer than for those of others.
func TestPayloadsAreLoadedInTurn(t *testing.T) {
	t.Parallel()
	const size = 300 << 10
	server, a, _ := start(t)
	other := newAuthor(t, a.c, "s2")
	for _, of := range []*author{a, other} {
		of.commit(&schemas.QueueUpdate{})
		of.elsewhere(size)
	}
	loads := a.loads()
	c := connect(t, server.ClientURL())
	end := c.Load(t.Context(), "s1")
	var waiting []*watching
	for range 3 {
		w := watch(t, c.Session("s1"), 1)
		w.want("1 queue_update")
		waiting = append(waiting, w)
	}
	watch(t, c.Session("s2"), 1).want("1 queue_update", "2 error")
	if n, _, err := loads.Pending(); err != nil || n != 1 {
		t.Errorf("%d payloads were requested, %v, want that of the other session", n, err)
	}
	end()
	for _, w := range waiting {
		w.want("2 error")
		w.stop()
	}
	bustest.Eventually(t, "nothing is held", c.Idle)
}

// A payload whose turn to be requested comes late waits as long as need be, and does not begin again.
func TestALoadDoesNotLoseItsTurn(t *testing.T) {
	t.Parallel()
	const all = 1 << 30
	server, a, _ := start(t)
	a.commit(&schemas.QueueUpdate{})
	a.elsewhere(300 << 10)
	loads := a.loads()
	c := connect(t, server.ClientURL())
	begun := make(chan error, 1)
	for e, err := range c.Session("s1").History(bustest.Deadline(t), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq > 1 {
			break
		}
		release, err := natsio.Reserve(bustest.Deadline(t), c.NATS(), all)
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			defer release()
			if _, err := loads.NextMsgWithContext(bustest.Deadline(t)); err != nil {
				begun <- err
				return
			}
			if _, err := loads.NextMsg(3 * time.Second / 2); !errors.Is(err, nats.ErrTimeout) { // the first limit is a second
				begun <- fmt.Errorf("the load has begun again: %v", err)
				return
			}
			begun <- nil
		}()
	}
	if err := <-begun; err != nil {
		t.Error(err)
	}
}
