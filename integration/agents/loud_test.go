package agents_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// loud is a model that answers prompts that start with "loud" with the longest text that a result may have, of a
// character that takes six bytes in JSON.
type loud struct{ driver.Model }

func (l loud) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	last, ok := req.Messages[len(req.Messages)-1].(*schemas.UserMessage)
	if !ok || !strings.HasPrefix(last.Content.JoinText(), "loud") {
		return l.Model.Stream(ctx, req)
	}
	return func(yield func(schemas.StreamEvent, error) bool) {
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Reason: schemas.StopStop, Message: &schemas.AssistantMessage{
			StopReason: schemas.StopStop, Content: schemas.Contents{schemas.Text{Text: strings.Repeat("\x01", 1<<20)}}}}, nil)
	}
}

// The last message of a sub-agent is many times larger in JSON. Its parent gets as much as a command can hold, and
// continues.
func TestASubagentIsLoud(t *testing.T) {
	t.Parallel()
	r, _ := family(t, func(h *host.Options) { h.Model = loud{h.Model} })
	r.Prompt(t, "s1", calls(map[string]any{"prompt": "loud"}))
	log := r.Until(t, "s1", "the end", system.Ends(1))
	if all := results(log); len(all) != 1 || !strings.HasPrefix(all[0], "\x01\x01") ||
		!strings.Contains(all[0], "more are in the sub-agent's log]") {
		t.Errorf("results %.100q", all)
	}
	r.settled(began(log)[0].Session)
	r.EmptyInbox(t)
}
