//go:build unix

package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// A compaction shows its reason, its outcome and the summary. A rejected one shows that it was rejected.
func TestCompactions(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("all is said")), Host: func(h *host.Options) {
		h.Defaults.Compaction = schemas.CompactionPolicy{Enabled: true, ReserveTokens: 1000, KeepRecentTokens: 100}
	}})
	long := strings.Repeat("word ", 200)
	w.Prompted(t, "s1", long, 1)
	w.Prompted(t, "s1", long, 2)
	page := w.open("#/s/s1")
	page.until("two runs are shown", "document.querySelectorAll('.end').length === 2")
	w.Publish(t, "s1", schemas.CommandCompact, `{}`)
	page.shows(".note", "Compacted, on request:")
	page.shows(".note", "all is said")
	w.Publish(t, "s1", schemas.CommandCompact, `{}`)
	page.shows(".note.bad", "Already compacted")
}

// deciding is a service that blocks calls with a word in their arguments.
type deciding string

func (word deciding) Ask(_ context.Context, _ schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
	if strings.Contains(string(req.Args), string(word)) {
		return schemas.HookAnswer{Block: true, Reason: "it names a secret", By: "ann"}, nil
	}
	return schemas.HookAnswer{}, nil
}

// A retry shows its reason. A decision about a call shows the service, what it decided, and why.
func TestRetriesAndHooks(t *testing.T) {
	suite.LongForm(t)
	flaky := echo("secret")
	flaky.Fail = []string{"529 overloaded"}
	w := newWorld(t, system.Options{Model: chunked(t, flaky, scripted.Text("done")), Host: func(h *host.Options) {
		h.Services = deciding("secret")
		h.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookBeforeToolCall, Service: "policy", TimeoutMs: 60_000}}
		h.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 1, BaseDelayMs: 1}
	}})
	page := w.open("#/s/s1")
	page.types(box, "go"+enter)
	page.shows(".note.warn", "Retried, attempt 1 of 1")
	page.shows(".note.warn", "529 overloaded")
	page.shows(".message.assistant.left header", "taken back")
	page.shows(".call .note", "Hook beforeToolCall of policy: ann blocked: it names a secret")
	page.shows(".call.bad .tag", "failed")
	page.shows(".end", "done")
}

// profiles are those of a runner by name.
type profiles map[string]schemas.Profile

func (p profiles) Profile(_ context.Context, name string) (schemas.Profile, error) {
	if one, ok := p[name]; ok {
		return one, nil
	}
	return schemas.Profile{}, fmt.Errorf("%w: %s", host.ErrNoProfile, name)
}

// A user sets the model, the thinking level and the profile of a session, which its next run uses. An unknown profile
// is rejected with the reason.
func TestSettings(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am")), Host: func(h *host.Options) {
		h.Profiles = profiles{"lead": {Description: "who leads"}}
	}})
	w.Prompted(t, "s1", "go", 1)
	page := w.open("#/s/s1")
	page.click(".settings summary", "Settings")
	page.until("the models are there",
		"[...document.querySelectorAll('.choices option')].some((o) => o.value === 'scripted/scripted' && !o.disabled)")
	page.choose(".choices label:nth-of-type(1) select", "scripted/scripted")
	page.told("Model: done")
	page.choose(".choices label:nth-of-type(2) select", "high")
	page.told("Thinking: done")
	page.types(".choices input", "nobody"+enter)
	page.told("Profile: refused")
	eval[bool](page, "(document.querySelector('.choices input').select(), true)")
	page.types(".choices input", "lead"+enter)
	page.told("Profile: done")
	page.shows(".note", "Changed thinking level")
	log := w.Prompted(t, "s1", "again", 2)
	starts := system.DataOf[*schemas.AgentStart](log)
	if c := starts[len(starts)-1].Config; c == nil || c.ThinkingLevel != "high" || c.Profile != "lead" ||
		c.Model.Provider != "scripted" {
		t.Errorf("the next run has %+v", c)
	}
}

// A prompt that interrupts ends the current run and starts another.
func TestInterrupt(t *testing.T) {
	_, page, model := speaking(t)
	page.choose(".composer select", "interrupt")
	page.types(box, "something else"+enter)
	page.shows(".end", "aborted")
	page.shows(".message.user", "something else")
	model.Release()
	page.until("two runs have ended", "document.querySelectorAll('.end').length === 2")
}
