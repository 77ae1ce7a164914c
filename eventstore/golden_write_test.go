package eventstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/agent"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// goldenSession is a session that a golden log is made of.
type goldenSession struct {
	name, about string
	options     func(*host.Options)
	play        func(r *goldenRig)
}

// goldenSessions write, together, every type of event that a log may hold.
var goldenSessions = []goldenSession{
	{"tools", "parallel calls, one unknown and one with wrong arguments; a result that is an error; a snapshot", nil,
		playTools},
	{"queues", "steering, follow-ups, an interrupt, everything that withdraws or refuses, and an abort", nil, playQueues},
	{"retries", "attempts, a fallback and a budget", retrying, playRetries},
	{"takeovers", "processes that die while the model streams and between the events of one command", nil, playTakeovers},
	{"approvals", "calls that wait for somebody, hooks that decide, sequential execution", approving, playApprovals},
	{"digests", "answers that say which request they are to: to another one, with other arguments, and to what waits",
		approving, playDigests},
	{"services", "a copy of another session that follows a profile, and services that are asked at every hook", serving,
		playServices},
	{"tree", "a session that goes back and to another branch, with labels, a name and an application's own entries", nil,
		playTree},
	{
		"compaction",
		"contexts that are summed up: in time, after an overflow, because somebody asked; one that fails, one " +
			"that is cancelled by a service, one that a service has written, and branches that are left",
		compacting,
		playCompaction,
	},
	{"fork", "a copy from before a message of another session, which a service has refused first", forking, playFork},
	{"subagents", "a sub-agent with two of its own, one of which it waits for and one that it joins, until its parent " +
		"aborts it", inFamily, playSubagents},
	{"positions", "commands that come back when they are forgotten, one that was skipped, and another inbox", nil,
		playPositions},
	{"agent", "what is not done by commands: a transcript that is replaced, and an error outside of a run", nil,
		playAgent},
}

func playTools(r *goldenRig) {
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopToolUse, schemas.Thinking{Thinking: "Hm\n\u00e9\u2028", ThinkingSignature: "c2ln"},
			schemas.Text{Text: "Looking."},
			goldenCall("call_1", "read", `{ "path" : "<a>&b" }`), goldenCall("call_2", "read", `{"path":"b"}`),
			goldenCall("call_3", "nowhere", `{}`), goldenCall("call_1", "read", `{"path":12345678901234567890}`))
	}}
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "look <here> & \u2028 there",
		Images: []schemas.Image{{Data: "aGk=", MimeType: "image/png"}}}})
	r.answer(schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: "one"}}, Details: []byte(`{"lines":[1, 2]}`)},
		false)
	r.answer(schemas.ErrorResult("no such file"), true)
	r.answer(schemas.TextResult("a name made of a number"), false)
	r.deliver("set-1", &schemas.SetThinkingLevel{ThinkingLevel: schemas.ThinkingHigh})
	r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "again"}})
}

func playQueues(r *goldenRig) {
	r.script = []func(context.Context) *schemas.AssistantMessage{
		func(context.Context) *schemas.AssistantMessage {
			r.deliver("st1", &schemas.Steer{Input: schemas.Input{Text: "left"}})
			r.deliver("fu1", &schemas.FollowUp{Input: schemas.Input{Text: "and then"}})
			r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "later"}})
			r.deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "never"}, WhenBusy: schemas.BusyReject})
			r.deliver("fu2", &schemas.FollowUp{Input: schemas.Input{Text: "not at all"}})
			r.deliver("ci1", &schemas.CancelInput{InputID: "fu2"})
			r.deliver("ci2", &schemas.CancelInput{InputID: "nothing"})
			return golden(schemas.StopStop, schemas.Text{Text: "right"})
		},
		func(context.Context) *schemas.AssistantMessage {
			return golden(schemas.StopStop, schemas.Text{Text: "left, then"})
		},
		func(ctx context.Context) *schemas.AssistantMessage {
			r.deliver("p4", &schemas.Prompt{Input: schemas.Input{Text: "now"}, WhenBusy: schemas.BusyInterrupt})
			<-ctx.Done()
			return golden(schemas.StopAborted)
		},
		func(ctx context.Context) *schemas.AssistantMessage {
			r.deliver("st2", &schemas.Steer{Input: schemas.Input{Text: "gone"}})
			r.deliver("cq1", &schemas.ClearQueue{})
			r.deliver("a1", &schemas.Abort{Reason: "enough"})
			<-ctx.Done()
			return golden(schemas.StopAborted)
		},
	}
	r.deliver("modes", &schemas.SetModes{SteeringMode: schemas.QueueAll})
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "go"}})
	r.deliver("a2", &schemas.Abort{})
	r.deliver("go-on", &schemas.FollowUp{Input: schemas.Input{Text: "go on"}})
	r.deliver("no", &schemas.Continue{})
}

func retrying(o *host.Options) {
	o.Retryable = func(m *schemas.AssistantMessage) bool { return m.ErrorMessage == "overloaded" }
	o.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 1, BaseDelayMs: 1}
	o.Defaults.Fallbacks = []schemas.ModelRef{{Provider: "acme", ID: "m2"}}
	o.Defaults.Limits = schemas.Limits{MaxTokens: 1000, WarnShare: 0.2}
}

func playRetries(r *goldenRig) {
	fail := func(context.Context) *schemas.AssistantMessage {
		m := golden(schemas.StopError)
		m.ErrorMessage = "overloaded"
		return m
	}
	fine := func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopStop, schemas.Text{Text: "at last"})
	}
	r.script = []func(context.Context) *schemas.AssistantMessage{fail, fine, fail, fail, fine}
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "go"}})
	r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "once more"}})
}

func playTakeovers(r *goldenRig) {
	r.die(schemas.EventMessageEnd, "p1", &schemas.Prompt{Input: schemas.Input{Text: "go"}})
	r.die(schemas.EventCommandApplied, "set-1", &schemas.SetSystemPrompt{SystemPrompt: "Be slow."})
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopLength, goldenCall("call_1", "read", `{"path":"cut off"}`))
	}}
	r.die(schemas.EventTurnEnd, "p2", &schemas.Prompt{Input: schemas.Input{Text: "again"}})
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		r.fail(schemas.EventMessageEnd) // in the middle of the stream
		return golden(schemas.StopStop, schemas.Text{Text: "nobody hears this"})
	}}
	r.die(schemas.EventError, "p3", &schemas.Prompt{Input: schemas.Input{Text: "and again"}})
}

func approving(o *host.Options) {
	o.Defaults.Approval = schemas.ApprovalPolicy{Tools: []string{"bash"}}
	o.Hooks.BeforeToolCall = func(_ context.Context, c driver.BeforeToolCall) (driver.BeforeToolCallResult, error) {
		if c.ToolCall.ID == "call_1" {
			return driver.BeforeToolCallResult{Block: true, Reason: "not this file", By: "policy"}, nil
		}
		return driver.BeforeToolCallResult{}, nil
	}
}

func playApprovals(r *goldenRig) {
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopToolUse, goldenCall("call_1", "read", `{"path":"secret"}`),
			goldenCall("call_2", "bash", `{"command":"ls"}`), goldenCall("call_3", "bash", `{"command":"rm -r /"}`))
	}}
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "go"}})
	yes := schemas.ApprovalAnswer{Call: r.asked().Key, By: "ann", Reason: "harmless"}
	r.deliver("yes", &schemas.Approve{ApprovalAnswer: yes})
	r.answer(schemas.TextResult("a file"), false)
	r.deliver("no", &schemas.Deny{ApprovalAnswer: schemas.ApprovalAnswer{Call: r.asked().Key, By: "bob"}})
}

func playDigests(r *goldenRig) {
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopToolUse, goldenCall("call_2", "bash", `{"command":"ls <a>"}`),
			goldenCall("call_3", "bash", `{"command":"rm -r /"}`), goldenCall("call_4", "bash", `{"command":"date"}`))
	}}
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "go"}})
	first := schemas.ApprovalAnswer{Call: r.asked().Key, Digest: r.asked().Approval.Digest, By: "ann"}
	r.deliver("yes", &schemas.Approve{ApprovalAnswer: first})
	r.answer(schemas.TextResult("a file"), false)
	second := schemas.ApprovalAnswer{Call: r.asked().Key, Digest: first.Digest, By: "ann"}
	r.deliver("of another", &schemas.Approve{ApprovalAnswer: second})
	r.deliver("no of another", &schemas.Deny{ApprovalAnswer: second})
	second.Digest = r.asked().Approval.Digest
	r.deliver("changed", &schemas.Approve{ApprovalAnswer: second, Args: []byte(`{"command":"rm -r a"}`)})
	r.answer(schemas.TextResult("it is gone"), false)
	r.deliver("no", &schemas.Deny{ApprovalAnswer: schemas.ApprovalAnswer{Call: r.asked().Key,
		Digest: r.asked().Approval.Digest, By: "bob"}})
}

// asked is the call that waits for approval.
func (r *goldenRig) asked() loop.Call {
	calls := r.state().Run.Turn.Calls
	return calls[slices.IndexFunc(calls, func(c loop.Call) bool { return c.AwaitsApproval() })]
}

// goldenServices answers at every hook.
type goldenServices struct{}

func (goldenServices) Ask(_ context.Context, to schemas.HookRef, req schemas.HookRequest) (a schemas.HookAnswer,
	err error) {
	note := schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "a note"}}, Timestamp: 2}}
	a.By, a.Reason = "ann", "as agreed"
	switch to.Hook {
	case schemas.HookInput:
		if a.Handled = req.CommandID == "faq"; !a.Handled {
			a.Messages = append(req.Messages[:len(req.Messages):len(req.Messages)], note...)
		}
	case schemas.HookBeforeAgentStart:
		prompt := "You are watched."
		a.Messages, a.SystemPrompt = note, &prompt
	case schemas.HookContext:
		return a, errors.New("no service listens")
	case schemas.HookMessageEnd:
		a.Message = req.Message
	case schemas.HookBeforeToolCall:
		a.Args = []byte(`{"path":"<b>"}`)
	case schemas.HookAfterToolCall:
		content, wrong := schemas.Contents{schemas.Text{Text: "masked"}}, true
		a.Content, a.IsError = &content, &wrong
	}
	return a, nil
}

func (goldenServices) Profile(context.Context, string) (schemas.Profile, error) {
	return schemas.Profile{Tools: []string{"read"}, Budget: &schemas.ProfileBudget{MaxCost: 5, Per: schemas.PerDay}}, nil
}

func serving(o *host.Options) {
	o.Services, o.Profiles = goldenServices{}, goldenServices{}
	for _, hook := range schemas.HookNames() {
		o.Defaults.Hooks = append(o.Defaults.Hooks, schemas.HookRef{Hook: hook, Service: "watch", TimeoutMs: 2000})
	}
}

func playServices(r *goldenRig) {
	session := r.session
	r.session = "origin"
	r.deliver("set-1", &schemas.SetSystemPrompt{SystemPrompt: "Be slow."})
	r.deliver("p0", &schemas.Prompt{Input: schemas.Input{Text: "first"}})
	r.session = session
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopToolUse, goldenCall("call_1", "read", `{"path":"a"}`))
	}}
	r.deliver("b1", &schemas.Branch{Session: "origin"})
	r.deliver("sp1", &schemas.SetProfile{Profile: "reviewer"})
	r.deliver("faq", &schemas.Prompt{Input: schemas.Input{Text: "how?"}})
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "go"}, Binding: schemas.Binding{Channel: "ui-1"}})
	r.answer(schemas.TextResult("a secret"), false)
}

func playTree(r *goldenRig) {
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: "one"}})
	first := r.state().Tree.Leaf
	r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: "two"}})
	second := r.state().Tree.Leaf
	r.deliver("c1", &schemas.Custom{CustomType: "todo", Data: []byte(`{"open":[1,2]}`)})
	r.deliver("x1", &schemas.AddMessage{CustomType: "note", Display: true, Details: []byte(`{"n":1}`),
		Content: schemas.Contents{schemas.Text{Text: "The build is <red>."}}})
	r.deliver("n1", &schemas.Navigate{TargetID: first, Label: "start"})
	r.deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "three"}})
	r.restart()
	r.deliver("n2", &schemas.Navigate{TargetID: second})
	r.deliver("l1", &schemas.Label{TargetID: second, Label: "the other way"})
	r.deliver("l2", &schemas.Label{TargetID: first})
	r.deliver("t1", &schemas.Name{Name: "a tree"})
	r.deliver("n3", &schemas.Navigate{TargetID: "m999"})
	r.deliver("p4", &schemas.Prompt{Input: schemas.Input{Text: "four"}})
}

// compacting has a window that is known, and services that are asked before the context is summed up.
func compacting(o *host.Options) {
	o.Defaults.Compaction = schemas.CompactionPolicy{Enabled: true, ReserveTokens: 100, KeepRecentTokens: 40}
	o.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 1, BaseDelayMs: 1}
	o.Window = func(schemas.ModelRef) int64 { return 600 }
	o.Services = goldenSummaries{}
	for _, hook := range []schemas.HookName{schemas.HookSessionBeforeCompact, schemas.HookSessionBeforeTree} {
		o.Defaults.Hooks = append(o.Defaults.Hooks, schemas.HookRef{Hook: hook, Service: "watch"})
	}
}

// goldenSummaries answers before contexts are summed up.
type goldenSummaries struct{}

func (goldenSummaries) Ask(
	_ context.Context,
	_ schemas.HookRef,
	req schemas.HookRequest,
) (a schemas.HookAnswer, err error) {
	if req.Compaction != nil {
		switch req.Compaction.CustomInstructions {
		case "cancel":
			a.Cancel = true
		case "supply":
			a.Compaction = &schemas.SuppliedCompaction{Summary: "what a service says", Details: []byte(`{"pages":3}`)}
		}
	}
	if req.Navigation != nil && req.Navigation.CustomInstructions == "relabel" {
		label := "by a service"
		a.Label = &label
	}
	return a, nil
}

func playCompaction(r *goldenRig) {
	say := func(stop schemas.StopReason, tokens int64, text string) func(context.Context) *schemas.AssistantMessage {
		return func(context.Context) *schemas.AssistantMessage {
			m := golden(stop, schemas.Text{Text: text})
			m.Usage.TotalTokens = tokens
			return m
		}
	}
	long := strings.Repeat("word ", 60)
	r.script = []func(context.Context) *schemas.AssistantMessage{say(schemas.StopStop, 200, long),
		say(schemas.StopStop, 550, "near the end"), say(schemas.StopLength, 30, "cut"),
		say(schemas.StopStop, 30, "## Goal in time")}
	r.deliver("p1", &schemas.Prompt{Input: schemas.Input{Text: long}})
	first := r.state().Tree.Leaf
	r.deliver("p2", &schemas.Prompt{Input: schemas.Input{Text: long}})
	r.deliver("k1", &schemas.Compact{})
	r.script = []func(context.Context) *schemas.AssistantMessage{say(schemas.StopStop, 300, long)}
	r.deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: long}})
	r.deliver("k2", &schemas.Compact{CustomInstructions: "cancel"})
	r.script = []func(context.Context) *schemas.AssistantMessage{
		say(schemas.StopStop, 3, " "),
		say(schemas.StopStop, 3, " "),
	}
	r.deliver("k3", &schemas.Compact{CustomInstructions: "fail"})
	r.deliver("k4", &schemas.Compact{CustomInstructions: "supply"})
	r.script = []func(context.Context) *schemas.AssistantMessage{
		say(schemas.StopStop, 90, "beside"),
		say(schemas.StopStop, 90,
			"what was left"),
	}
	r.deliver("p4", &schemas.Prompt{Input: schemas.Input{Text: "another way"}})
	r.deliver("n1", &schemas.Navigate{TargetID: first, Summarize: true, CustomInstructions: "relabel", Label: "here"})
	r.script = []func(context.Context) *schemas.AssistantMessage{
		say(schemas.StopStop, 90, "again"),
		say(schemas.StopStop, 3, " "),
		say(schemas.StopStop, 3, " "),
	}
	r.deliver("p5", &schemas.Prompt{Input: schemas.Input{Text: "once more"}})
	r.deliver("n2", &schemas.Navigate{TargetID: first, Summarize: true})
}

// playAgent writes with the in-memory agent, and by hand.
func playAgent(r *goldenRig) {
	log, err := r.store.Open(r.t.Context(), r.session)
	if err != nil {
		r.t.Fatal(err)
	}
	a, err := agent.New(r.t.Context(), agent.Options{
		Model: schemas.ModelRef{API: "golden", ID: "m1"}, Stream: (*goldenModel)(r), Log: log, Clock: (*goldenClock)(r),
		Messages: schemas.Messages{
			&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "before"}}, Timestamp: 1},
			&schemas.CustomMessage{Role: "note", Raw: []byte(`{"role":"note","text":"kept"}`)},
		},
	})
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := a.Prompt(r.t.Context(), "go"); err != nil {
		r.t.Fatal(err)
	}
	e := r.state().Envelope(&schemas.ErrorEvent{Code: "disk_full", Message: "no space is left", Recoverable: true})
	e.Time, e.Source = (*goldenClock)(r).Now(), "/loopbus/agent"
	if err := errors.Join(log.Append(r.t.Context(), e), log.Flush(r.t.Context())); err != nil {
		r.t.Fatal(err)
	}
}

// continueV1 is a log that began in the form of before.
func continueV1(t *testing.T) goldenLog {
	g := readGolden(t, filepath.Join("testdata", "golden", "v1", "tools.ndjson"))
	r := newGoldenRig(t, g.restore(), g.Session, nil)
	r.now = r.now.AddDate(0, 1, 0)
	r.script = []func(context.Context) *schemas.AssistantMessage{func(context.Context) *schemas.AssistantMessage {
		return golden(schemas.StopToolUse, goldenCall("call_9", "read", `{"path":"c"}`))
	}}
	r.deliver("p3", &schemas.Prompt{Input: schemas.Input{Text: "and once more"}})
	r.answer(schemas.TextResult("three"), false)
	g.About = "it began with one event a message, and goes on with commits"
	g.version = loop.FoldVersion
	g.messages, g.snapshot = r.store.Dump(g.Session, g.version)
	return g
}

// TestGoldenLogsAreAdded wants every golden log to be there. With -update it writes those that are not, and for all
// logs the hash of the state by this version of the fold.
func TestGoldenLogsAreAdded(t *testing.T) {
	t.Parallel()
	dir := filepath.Join("testdata", "golden", goldenVersion)
	if !*update {
		paths := []string{"continued.ndjson"}
		for _, s := range goldenSessions {
			paths = append(paths, s.name+".ndjson")
		}
		for _, d := range goldenDamages {
			paths = append(paths, filepath.Join("damaged", d.name+".ndjson"))
		}
		for _, path := range paths {
			if _, err := os.Stat(filepath.Join(dir, path)); err != nil {
				t.Errorf("%v: -update writes it", err)
			}
		}
		return
	}
	for _, s := range goldenSessions {
		r := newGoldenRig(t, eventstore.NewMemory(), s.name, s.options)
		s.play(r)
		g := goldenLog{goldenHead: goldenHead{Session: s.name, About: s.about}, version: loop.FoldVersion}
		g.messages, g.snapshot = r.store.Dump(s.name, loop.FoldVersion)
		add(t, filepath.Join(dir, s.name+".ndjson"), g.encode(t))
	}
	add(t, filepath.Join(dir, "continued.ndjson"), continueV1(t).encode(t))
	for _, g := range goldenLogs(t, "") {
		add(t, g.foldPath(), []byte(g.fold(t)+"\n"))
		add(t, g.prefixPath(), []byte(strings.Join(g.prefixSums(t), "\n")+"\n"))
	}
	for _, d := range goldenDamages {
		g := readGolden(t, filepath.Join(dir, "tools.ndjson"))
		d.hurt(&g)
		g.About = d.about
		g.Fault = g.verify(t).Bad.Error()
		add(t, filepath.Join(dir, "damaged", d.name+".ndjson"), g.encode(t))
	}
}
