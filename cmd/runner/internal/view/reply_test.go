package view_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/cmd/runner/internal/view"
	"github.com/loopbus/loopbus/schemas"
)

// What was streamed and is no part of the reply does not stand for it: anybody who executes tools may publish updates.
func TestTheReplyIsThatOfTheLog(t *testing.T) {
	t.Parallel()
	streamed := func(block int, text string) *schemas.Update {
		return &schemas.Update{Session: "s1", Event: 1, N: 1, Data: &schemas.MessageUpdate{MessageID: "m1",
			AssistantMessageEvents: []schemas.StreamEvent{{Type: schemas.StreamTextDelta, ContentIndex: block, Delta: text}}}}
	}
	for _, c := range []struct {
		name   string
		update *schemas.Update
		want   string
		cut    bool
	}{
		{"nothing streamed", nil, "do not run it\n", false},
		{"the beginning", streamed(0, "do not"), "do not run it\n", false},
		{"something else", streamed(0, "do run it"), "do run it\n(replaces the text above)\ndo not run it\n", false},
		{"another block", streamed(7, "do run it"), "do run it\n(replaces the text above)\ndo not run it\n", false},
		{"more than a reply that was cut off", streamed(0, "do not run it at all"), "do not run it at all\n", true},
	} {
		var out strings.Builder
		show := view.NewTerminal(&out, false)
		send := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		send(show.Event(schemas.Event{Session: "s1", Seq: 1,
			Data: &schemas.MessageStart{MessageID: "m1", Role: schemas.RoleAssistant}}))
		if c.update != nil {
			send(show.Update(*c.update))
		}
		send(show.Event(schemas.Event{Session: "s1", Seq: 2, Data: &schemas.MessageEnd{MessageID: "m1", Interrupted: c.cut,
			Message: schemas.AnyMessage{Message: &schemas.AssistantMessage{
				Content: schemas.Contents{schemas.Text{Text: "do not run it"}}}}}}))
		if got := out.String(); got != c.want {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

// full is a disk without room.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// A reply that could not be printed is no success.
func TestOutputThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	show := view.NewTerminal(full{}, false)
	end := schemas.MessageEnd{MessageID: "m1", Message: schemas.AnyMessage{Message: &schemas.AssistantMessage{
		Content: schemas.Contents{schemas.Text{Text: "hi"}}, StopReason: schemas.StopStop}}}
	for _, data := range []schemas.EventData{&schemas.MessageStart{MessageID: "m1", Role: schemas.RoleAssistant}, &end} {
		err := show.Event(schemas.Event{Session: "s1", Seq: 1, Data: data})
		if printed := data == schemas.EventData(&end); errors.Is(err, syscall.ENOSPC) != printed {
			t.Errorf("%s: %v", data.EventType(), err)
		}
	}
}
