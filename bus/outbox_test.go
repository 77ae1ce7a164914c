package bus_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

// taken collects the commands that an inbox delivers.
type taken struct {
	bustest.NoHost
	mu  sync.Mutex
	got []schemas.Command
}

func (h *taken) Deliver(_ context.Context, cmd schemas.Command, _ func()) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.got = append(h.got, cmd)
	return nil
}

func (h *taken) Reject(context.Context, string, schemas.CommandRejected) error { return nil }

func (h *taken) commands() []schemas.Command {
	h.mu.Lock()
	defer h.mu.Unlock()
	return append([]schemas.Command{}, h.got...)
}

// The outbox stores a command of another session unchanged, with an id that only runners may use.
func TestOutboxStoresCommandsOfRunners(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var inbox taken
	bustest.RunInbox(t, c, bustest.Fast("r1"), &inbox)
	link := schemas.SubagentLink{Session: "parent", Call: "c9", Nonce: "NONCE", Depth: 1, MaxDepth: 2}
	want := schemas.Command{
		ID: link.PromptID(), Session: "child", Source: "/loopbus/runner/r9",
		TraceParent: "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
		Data: &schemas.SubagentPrompt{Parent: link, Text: "do “it”",
			SubagentSettings: schemas.SubagentSettings{Tools: []string{}, MaxTokens: 5}},
	}
	out := bus.NewOutbox(c)
	for range 2 { // the server stores both: only the session ignores duplicates
		if err := out.Store(bustest.Deadline(t), want); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "both come", func() bool { return len(inbox.commands()) == 2 })
	for _, got := range inbox.commands() {
		if want.Time = got.Time; got.Time.IsZero() {
			t.Error("it has no time")
		}
		if want.InboxPosition = got.InboxPosition; got.StreamSeq == 0 || got.Inbox == "" {
			t.Errorf("it has position %+v", got.InboxPosition)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("command (-want +got):\n%s", d)
		}
	}
}

func TestOutboxRejectsIllegalSession(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	err := bus.NewOutbox(c).Store(bustest.Deadline(t), schemas.Command{ID: "a", Session: "a.b", Data: new(schemas.Abort)})
	if !errors.Is(err, schemas.ErrSubject) {
		t.Errorf("error %v, want one of the subject", err)
	}
}

// Holds is true while a command is unsettled, and false for a settled one and for another session or kind.
func TestOutboxHoldsUnsettledCommands(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	out := bus.NewOutbox(c)
	holds := func(session string, kind schemas.CommandKind) bool {
		t.Helper()
		held, err := out.Holds(bustest.Deadline(t), session, kind)
		if err != nil {
			t.Fatal(err)
		}
		return held
	}
	link := schemas.SubagentLink{Session: "parent", Call: "c9", Nonce: "NONCE"}
	err := out.Store(bustest.Deadline(t), schemas.Command{
		ID: link.PromptID(), Session: "child", Source: "/loopbus/runner/r9",
		Data: &schemas.SubagentPrompt{Parent: link, Text: "go"},
	})
	if err != nil {
		t.Fatal(err)
	}
	if !holds("child", schemas.CommandSubagentPrompt) {
		t.Error("an unsettled prompt is not held")
	}
	if holds("child", schemas.CommandSubagentResult) || holds("chil", schemas.CommandSubagentPrompt) {
		t.Error("another kind or session is held")
	}
	bustest.RunInbox(t, c, bustest.Fast("r1"), new(taken))
	bustest.Eventually(t, "it is settled", func() bool { return !holds("child", schemas.CommandSubagentPrompt) })
	if _, err := out.Holds(bustest.Deadline(t), "a.b", schemas.CommandAbort); !errors.Is(err, schemas.ErrSubject) {
		t.Errorf("error %v, want one of the subject", err)
	}
}
