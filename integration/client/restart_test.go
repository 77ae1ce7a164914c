package client_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// The server is restarted while a reply is streamed. Whatever happens to the run, a follower receives each event of the
// log once, and the end of the run.
func TestARunIsFollowedAcrossARestart(t *testing.T) {
	t.Parallel()
	o := embedded.Options{Listen: bustest.FreePort(t), StoreDir: t.TempDir()}
	server, err := embedded.Start(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Shutdown() }) // the last one, after the runner has stopped
	model := system.NewGated(6, chunked(t, scripted.Text("a reply that is long enough")))
	sys := system.Start(t, server.ClientURL(), system.Options{Model: model, UpdateInterval: -1})
	t.Cleanup(model.Release)
	run := prompt(t, connect(t, sys.URL).Session("s1"), "go")
	joined := false
	seen := newChecked(t)
	for item, failed := range run.Items(deadline(t)) {
		if failed != nil {
			t.Fatal(failed)
		}
		seen.add(item)
		if item.Delta() != "" && !joined {
			joined = true
			server.Shutdown()
			if server, err = embedded.Start(o); err != nil {
				t.Fatal(err)
			}
			model.Release()
		}
	}
	if !joined {
		t.Error("nothing was streamed")
	}
	log := sys.LogOf(t, "s1")
	events := seen.events()
	if got, want := len(events), len(log); got != want || events[got-1].Type() != schemas.EventAgentEnd {
		t.Errorf("saw %v, the log has %v", system.TypesOf(events), system.TypesOf(log))
	}
	if res := result(t, run); res.Reason != schemas.EndNoToolCalls {
		t.Errorf("got %+v", res)
	}
}

// A second client joins in the middle of a reply and receives all of its text so far.
func TestASecondClientJoinsInTheMiddle(t *testing.T) {
	t.Parallel()
	model := system.NewGated(6, chunked(t, scripted.Text("a reply that is long enough")))
	sys := system.StartAlone(t, system.Options{Model: model, UpdateInterval: -1})
	t.Cleanup(model.Release)
	run := prompt(t, connect(t, sys.URL).Session("s1"), "go")
	<-model.Reached
	second := connect(t, sys.URL)
	for _, from := range []uint64{1, 0} {
		seen := newChecked(t)
		if from == 0 {
			seen.starts[streamedEvent(t, second)] = true
		}
		for item, err := range second.Session("s1").Watch(deadline(t), from) {
			if err != nil {
				t.Fatal(err)
			}
			seen.add(item)
			if n := len(seen.text[streamedEvent(t, second)]); n >= len("a reply") {
				break // everything that the model has streamed so far
			}
		}
	}
	model.Release()
	if res := result(t, run); res.Text() != "a reply that is long enough" {
		t.Errorf("got %+v", res)
	}
}

// streamedEvent returns the sequence of the last message_start.
func streamedEvent(t *testing.T, c *client.Client) (seq uint64) {
	t.Helper()
	for e, err := range c.Session("s1").History(deadline(t), 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type() == schemas.EventMessageStart {
			seq = e.Seq
		}
	}
	return seq
}
