package bridges_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// large is a message of which three are a session that one stream may have, but no second one.
var large = strings.Repeat("x", 400<<10)

// longSession begins a session with three large messages.
func (r *rig) longSession(session string) {
	r.t.Helper()
	for n := range 3 {
		r.Prompt(r.t, session, "hello "+large)
		r.Until(r.t, session, "the end of a run", system.Ends(n+1))
	}
}

// Streams hold the state of their session. Who finds no room for it is refused, and may come again; a session that
// grows beyond the room ends its stream, which can be repeated. Other sessions have room.
func TestStreamsOfALongSessionAreBounded(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.longSession("s1")
	r.Prompt(t, "s1", "hang")
	r.Until(t, "s1", "the run that hangs", bustest.Nth(4, schemas.EventAgentStart))
	open := func(run string) *http.Response {
		response := r.postAGUI("s1", run, nil)
		t.Cleanup(func() { _ = response.Body.Close() })
		return response
	}
	first := open("r1")
	if first.StatusCode != http.StatusOK {
		t.Fatalf("the first stream: %s", first.Status)
	}
	for _, run := range []string{"r2", "r3"} {
		refused := open(run)
		said, _ := io.ReadAll(io.LimitReader(refused.Body, 1<<10))
		if refused.StatusCode != http.StatusServiceUnavailable || refused.Header.Get("Retry-After") == "" ||
			!strings.Contains(string(said), `"overloaded"`) {
			t.Fatalf("another stream: %s %s", refused.Status, said)
		}
	}
	if events := r.runAGUI("s2", "r1", []string{user("u1", "hello")}); textOf(events) != "hello to you" {
		t.Errorf("a stream of another session: %+v", events)
	}
	_ = first.Body.Close()
	var again *http.Response
	system.Eventually(t, "the room is free again", func() bool {
		again = open("r4")
		return again.StatusCode == http.StatusOK
	})
	if err := r.views.Hold("another").Set(views / 4); err != nil {
		t.Fatal(err)
	}
	r.Prompt(t, "s1", "hello "+large) // it waits
	events := r.readAGUI(again)
	if end := events[len(events)-1]; end.Type != "RUN_ERROR" || end.Code != "overloaded" {
		t.Errorf("the stream of a session that has grown ends with %+v", end)
	}
}

// What finds no room is refused in the terms of its protocol, and has room later.
func TestNoRoomForAView(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.longSession("s1")
	c := r.connected(nil)
	one, other := r.views.Hold(""), r.views.Hold("")
	if one.Set(views) != nil || other.Set(views) != nil { // each half of it
		t.Fatal("the budget is not free")
	}
	history := func() frame { return c.request("chat.history", map[string]any{"sessionKey": "s1"}) }
	events := func() string {
		said, err := io.ReadAll(r.get("/sessions/s1/events?after=0&follow=false").Body)
		if err != nil {
			t.Fatal(err)
		}
		return string(said)
	}
	if e := history().Error; e.Code != "UNAVAILABLE" || !e.Retryable || e.Details.Code != "overloaded" {
		t.Errorf("the history is refused with %+v", e)
	}
	if said := events(); !strings.Contains(said, "event: error\ndata: {\"code\":\"overloaded\"") {
		t.Errorf("the events end with %s", said[max(len(said)-500, 0):])
	}
	if a := c.request("sessions.messages.subscribe", map[string]any{"key": "s1"}); !a.OK {
		t.Errorf("a subscription, which has only the outline: %+v", a)
	}
	one.Release()
	other.Release()
	if a := history(); !a.OK || strings.Count(string(a.Payload), large) != 3 {
		t.Errorf("the history: %+v", a.Error)
	}
	if said := events(); strings.Contains(said, "event: error") || !strings.Contains(said, large) {
		t.Errorf("the events have %d bytes", len(said))
	}
	if err := one.Set(views); err != nil {
		t.Errorf("room was not released: %v", err)
	}
}

// A long reply is in the object store. It has room before it is loaded, from every bridge: who finds none is told so,
// and nothing was loaded for it.
func TestNoRoomForALongReply(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.Prompt(t, "s1", "long")
	r.Until(t, "s1", "the end of a run", system.Ends(1))
	loads, err := r.client.NATS().SubscribeSync("$JS.API.CONSUMER.CREATE.OBJ_" + schemas.BucketBlobs + ".>")
	if err == nil {
		err = r.client.NATS().Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	loaded := func() {
		t.Helper()
		if n, _, err := loads.Pending(); err != nil || n > 0 {
			t.Errorf("%d payloads were loaded without room for them, %v", n, err)
		}
	}
	one, other := r.views.Hold(""), r.views.Hold("")
	if one.Set(views) != nil || other.Set(views) != nil { // each half of it
		t.Fatal("the budget is not free")
	}
	const path = "/sessions/s1/events?after=0&follow=false"
	for range 8 {
		said, err := io.ReadAll(r.get(path).Body)
		if err != nil || !strings.Contains(string(said), "event: error\ndata: {\"code\":\"overloaded\"") {
			t.Fatalf("the events end with %s: %v", said[max(len(said)-500, 0):], err)
		}
	}
	loaded()
	viewer := r.chat("?session=s1&stateVersion=0", nil)
	told := viewer.until(named("error"))
	if f := told[len(told)-1]; !strings.Contains(string(f.Payload), `"overloaded"`) {
		t.Errorf("the viewer is told %s", f.Payload)
	}
	loaded()
	one.Release()
	other.Release()
	said, err := io.ReadAll(r.get(path).Body)
	if err != nil || strings.Contains(string(said), "event: error") || len(said) < 400<<10 {
		t.Errorf("with room, the events have %d bytes: %v", len(said), err)
	}
	if err := one.Set(views); err != nil {
		t.Errorf("room was not released: %v", err)
	}
}
