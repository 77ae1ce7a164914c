package client_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

func TestPromptIsFollowedToItsEnd(t *testing.T) {
	t.Parallel()
	model := system.NewGated(4, chunked(t, echoCall(), scripted.Text("There is one file.")))
	s := system.StartAlone(t, system.Options{UpdateInterval: -1, Model: model})
	run, err := connect(t, s.URL).Session("s1").Prompt(deadline(t), client.Text("list the files"))
	if err != nil {
		t.Fatal(err)
	}
	seen := newChecked(t)
	for item, err := range run.Items(deadline(t)) {
		if err != nil {
			t.Fatal(err)
		}
		seen.add(item)
		if item.Delta() != "" {
			model.Release()
		}
	}
	events := seen.events()
	if first, last := events[0].Type(), events[len(events)-1].Type(); first != schemas.EventCommandAccepted ||
		last != schemas.EventAgentEnd {
		t.Errorf("items from %s to %s", first, last)
	}
	if got, want := len(events), len(s.LogOf(t, "s1")); got != want {
		t.Errorf("%d events, the log has %d", got, want)
	}
	// The end of the reply may overtake the deltas behind the pause.
	if first := seen.streamed(0); first == "" || !strings.HasPrefix("let me see", first) {
		t.Errorf("streamed %q of the first reply", first)
	}
	res, err := run.Wait(deadline(t))
	if err != nil || res.Reason != schemas.EndNoToolCalls || res.Text() != "There is one file." || res.Turns != 2 {
		t.Errorf("got %+v, %v", res, err)
	}
}
