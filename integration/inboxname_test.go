package integration_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// prompted runs a session with ids that the service gave to its prompts.
func prompted(t *testing.T, s *system.System) {
	t.Helper()
	for n := range 20 {
		s.Publish(t, "s1", schemas.CommandPrompt, fmt.Sprintf("before %d", n))
		s.Until(t, "s1", "the run ends", system.Ends(n+1))
	}
}

// checkTaken sends as many prompts and more, and waits until all of them have run.
func checkTaken(t *testing.T, s *system.System) {
	t.Helper()
	for n := range 25 {
		s.Publish(t, "s1", schemas.CommandPrompt, fmt.Sprintf("after %d", n))
	}
	s.EmptyInbox(t)
	taken := 0
	for _, text := range system.Said(s.LogOf(t, "s1")) {
		if strings.HasPrefix(text, "after") {
			taken++
		}
	}
	if taken != 25 {
		t.Errorf("of 25 prompts that were acknowledged %d are in the log", taken)
	}
}

// A session that comes from another server takes prompts without an id, although it remembers those that the other
// server had at the same places.
func TestPromptsAfterARestoreElsewhere(t *testing.T) {
	t.Parallel()
	a := system.StartAlone(t, system.Options{Model: scripted.New(scripted.Text("ok"))})
	prompted(t, a)
	var file bytes.Buffer
	if _, err := archive.Write(t.Context(), a.Store, "s1", &file); err != nil {
		t.Fatal(err)
	}
	b := system.StartAlone(t, system.Options{Model: scripted.New(scripted.Text("ok"))})
	if _, err := archive.Restore(t.Context(), b.Client, b.Store, bytes.NewReader(file.Bytes())); err != nil {
		t.Fatal(err)
	}
	checkTaken(t, b)
}

// The same holds after the inbox was created again, as an operator does for another number of partitions.
func TestPromptsOfANewInbox(t *testing.T) {
	t.Parallel()
	server := system.StartServer(t, false)
	t.Run("before", func(t *testing.T) {
		prompted(t, system.Start(t, server.ClientURL(), system.Options{Model: scripted.New(scripted.Text("ok")),
			Streams: streams.Options{Partitions: 4}}))
	})
	c := system.Connect(t, server.ClientURL(), "operator")
	if err := c.JetStream().DeleteStream(t.Context(), schemas.StreamCommands); err != nil {
		t.Fatal(err)
	}
	checkTaken(t, system.Start(t, server.ClientURL(), system.Options{Model: scripted.New(scripted.Text("ok")),
		Streams: streams.Options{Partitions: 8}}))
}
