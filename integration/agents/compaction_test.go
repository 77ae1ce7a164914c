package agents_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/schemas"
)

// narrow is a model with a small window. It refuses longer requests as vendors do. A summary has the lines of the
// conversation that start with "needle".
type narrow struct {
	window int64

	mu        sync.Mutex
	summaries []schemas.ModelRequest
	asked     []schemas.ModelRequest
	most      int64 // tokens of the largest request that was served
	overflows int
	fail      []schemas.AssistantMessage // of the next requests for a summary
	block     chan struct{}              // blocks requests for a summary unless it is nil
}

func tokensOf(req schemas.ModelRequest) int64 {
	raw, _ := schemas.Marshal(req.Messages)
	return int64(len(raw)+3) / 4
}

func (n *narrow) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	reply, code := n.answer(ctx, req)
	reply.API, reply.Provider, reply.Model = req.Model.API, req.Model.Provider, req.Model.ID
	return func(yield func(schemas.StreamEvent, error) bool) {
		if reply.Failed() {
			yield(schemas.StreamEvent{Type: schemas.StreamError, Message: reply, FailureCode: code}, nil)
			return
		}
		yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: reply}, nil)
	}
}

func (n *narrow) answer(
	ctx context.Context,
	req schemas.ModelRequest,
) (*schemas.AssistantMessage, schemas.FailureCode) {
	n.mu.Lock()
	block := n.block
	n.mu.Unlock()
	last := req.Messages[len(req.Messages)-1]
	summary := strings.Contains(req.SystemPrompt, "summaries")
	if summary && block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return &schemas.AssistantMessage{StopReason: schemas.StopAborted, ErrorMessage: "aborted"}, ""
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	used := tokensOf(req)
	usage := schemas.Usage{Input: used, Output: 10, TotalTokens: used + 10, Cost: schemas.Cost{Total: 0.01}}
	if used > n.window {
		n.overflows++
		return &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: "prompt is too long"},
			schemas.FailureContextOverflow
	}
	n.most = max(n.most, used)
	text := func(s string) *schemas.AssistantMessage {
		return &schemas.AssistantMessage{
			Content:    schemas.Contents{schemas.Text{Text: s}},
			StopReason: schemas.StopStop,
			Usage:      usage,
		}
	}
	if !summary {
		n.asked = append(n.asked, req)
		m, ok := last.(*schemas.UserMessage)
		if ok && strings.HasPrefix(m.Content.JoinText(), "call") {
			reply := text("")
			reply.Content = schemas.Contents{
				schemas.ToolCall{ID: fmt.Sprint("t", len(n.asked)), Name: "note", Arguments: []byte(`{}`)},
			}
			reply.StopReason = schemas.StopToolUse
			return reply, ""
		}
		return text("well " + strings.Repeat("said ", 20)), ""
	}
	n.summaries = append(n.summaries, req)
	if len(n.fail) > 0 {
		reply := n.fail[0]
		n.fail = n.fail[1:]
		reply.Usage = usage
		return &reply, schemas.FailureOverloaded
	}
	seen := map[string]bool{}
	said := "SUMMARY\n"
	for _, line := range strings.Split(last.(*schemas.UserMessage).Content.JoinText(), "\n") {
		if at := strings.Index(line, "needle"); at >= 0 && !seen[line[at:]] {
			seen[line[at:]] = true
			said += line[at:] + "\n"
		}
	}
	return text(said), ""
}

var _ driver.Model = (*narrow)(nil)

// narrowRig starts a system whose model has a small window.
func narrowRig(t *testing.T, window int64, policy schemas.CompactionPolicy, more func(h *host.Options)) (*rig, *narrow,
	*client.Session) {
	t.Helper()
	model := &narrow{window: window}
	r := start(t, func(h *host.Options) {
		h.Model = model
		h.Window = func(schemas.ModelRef) int64 { return window }
		h.Defaults.Compaction = policy
		h.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 2, BaseDelayMs: 1}
		if more != nil {
			more(h)
		}
	})
	c, err := client.New(r.conn.NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return r, model, c.Session("s1")
}

func on(reserve, keep int64) schemas.CompactionPolicy {
	return schemas.CompactionPolicy{Enabled: true, ReserveTokens: reserve, KeepRecentTokens: keep}
}

func ends(log []schemas.Event) []*schemas.CompactionEnd {
	return system.DataOf[*schemas.CompactionEnd](log)
}

func (r *rig) log(session string) (log []schemas.Event) {
	r.t.Helper()
	for e, err := range r.Store.Read(r.t.Context(), session, 1) {
		if err != nil {
			r.t.Fatal(err)
		}
		log = append(log, e)
	}
	return log
}

// A context close to the window is compacted before the model refuses it: after a run, before a prompt, and between a
// batch of tools and the next model call. The next summary keeps the content of the last one.
func TestAContextIsCompactedInTime(t *testing.T) {
	t.Parallel()
	r, model, _ := narrowRig(t, 3000, on(600, 500), nil)
	long := strings.Repeat("word ", 120)
	for n := range 40 {
		text := fmt.Sprintf("turn %d %s", n, long)
		if n == 2 {
			text = "turn 2\nneedle of turn 3\n" + long
		}
		if n%5 == 4 {
			text = "call " + text
		}
		r.Prompted(t, "s1", text, n+1)
	}
	r.EmptyInbox(t)
	log := r.log("s1")
	done := ends(log)
	if len(done) < 3 || model.overflows > 0 || model.most > 3000 {
		t.Fatalf("%d compactions, %d overflows, %d tokens at most", len(done), model.overflows, model.most)
	}
	for _, end := range done {
		if end.ErrorMessage != "" || end.Reason != schemas.CompactThreshold || end.TokensAfter >= end.TokensBefore ||
			end.Usage.TotalTokens == 0 {
			t.Errorf("%+v", end)
		}
	}
	if last := done[len(done)-1]; !strings.Contains(last.Summary, "needle of turn 3") {
		t.Errorf("the last summary is %q", last.Summary)
	}
	state := new(loop.State)
	for _, e := range log {
		if err := state.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	if u := state.ContextUsage(); u == nil || u.ContextWindow != 3000 || u.Tokens > 2500 || u.Tokens == 0 {
		t.Errorf("context usage %+v", u)
	}
	for _, end := range system.DataOf[*schemas.TurnEnd](log) {
		if end.ContextUsage == nil || end.ContextUsage.Tokens == 0 {
			t.Errorf("turn_end without usage: %+v", end)
		}
	}
	total := schemas.Usage{}
	for _, end := range system.DataOf[*schemas.MessageEnd](log) {
		if reply, ok := end.Message.Message.(*schemas.AssistantMessage); ok {
			total = total.Add(reply.Usage)
		}
	}
	for _, end := range done {
		total = total.Add(end.Usage)
	}
	if state.Usage.TotalTokens != total.TotalTokens {
		t.Errorf("usage %d, want %d", state.Usage.TotalTokens, total.TotalTokens)
	}
	r.Verify(t, "s1")
}

// A client requests a compaction. It is done, rejected, aborted or reported as failed; the client always gets an
// outcome.
func TestACompactionIsAskedFor(t *testing.T) {
	t.Parallel()
	r, model, s := narrowRig(t, 100_000, on(1000, 100), nil)
	var rejected *client.RejectedError
	refused := func(err error, code schemas.RejectCode, reason string) {
		t.Helper()
		if !errors.As(err, &rejected) || rejected.Code != code || rejected.Reason != reason {
			t.Errorf("got %v, want %s: %s", err, code, reason)
		}
	}
	r.Prompted(t, "s1", "hi", 1)
	refused(s.Compact(t.Context(), ""), schemas.RejectState, "Nothing to compact (session too small)")
	long := strings.Repeat("word ", 200)
	r.Prompted(t, "s1", long, 2)
	r.Prompted(t, "s1", "needle "+long, 3)

	model.mu.Lock() // empty, truncated and overloaded replies are requested again as often as the policy allows
	model.fail = []schemas.AssistantMessage{
		{StopReason: schemas.StopStop},
		{StopReason: schemas.StopLength, Content: schemas.Contents{schemas.Text{Text: "cut"}}},
		{StopReason: schemas.StopError, ErrorMessage: "overloaded"},
	}
	model.mu.Unlock()
	refused(s.Compact(t.Context(), "Mind the tests."), schemas.RejectFailed,
		"Compaction failed: Summarization failed: overloaded")
	before := len(r.log("s1"))

	do(t, s.Compact(t.Context(), "Mind the tests."))
	model.mu.Lock()
	n := len(model.summaries)
	if asked := said(model.summaries[n-2].Messages)[0] + said(model.summaries[n-1].Messages)[0]; !strings.Contains(
		asked,
		"Additional focus: Mind the tests.",
	) {
		t.Errorf("asked %s", asked)
	}
	model.mu.Unlock()
	refused(s.Compact(t.Context(), ""), schemas.RejectState, "Already compacted")
	log := r.Prompted(t, "s1", "and now?", 4)
	if done := ends(log[before:]); len(done) != 1 || done[0].ErrorMessage != "" ||
		done[0].Reason != schemas.CompactManual {
		t.Errorf("ends %+v", done)
	}
	model.mu.Lock()
	shown := said(model.asked[len(model.asked)-1].Messages)
	model.mu.Unlock()
	if !strings.HasPrefix(shown[0], "The conversation history before this point was compacted") {
		t.Errorf("the model is shown %q", shown)
	}

	r.Prompted(t, "s1", long, 5)
	model.mu.Lock()
	model.block = make(chan struct{})
	model.mu.Unlock()
	result := make(chan error, 1)
	go func() { result <- s.Compact(t.Context(), "") }()
	r.Until(t, "s1", "the compaction has begun", func(e schemas.Event) bool {
		d, ok := e.Data.(*schemas.CompactionStart)
		return ok && int(e.Seq) > len(log) && d.Reason == schemas.CompactManual
	})
	do(t, s.Abort(t.Context(), ""))
	refused(<-result, schemas.RejectAborted, "Compaction cancelled")
	r.EmptyInbox(t)
	r.Verify(t, "s1")
}

// If a model refuses a context for its length, the context is compacted and the model called again, once.
func TestAnOverflowIsCompactedOnce(t *testing.T) {
	t.Parallel()
	r, model, _ := narrowRig(t, 2000, on(500, 300), func(h *host.Options) {
		h.Window = func(schemas.ModelRef) int64 { return 0 } // the window is unknown
	})
	long := strings.Repeat("word ", 300)
	for n := range 8 {
		r.Prompted(t, "s1", fmt.Sprint(n, long), n+1)
	}
	log := r.log("s1")
	for _, end := range system.DataOf[*schemas.AgentEnd](log) {
		if end.TerminationReason != schemas.EndNoToolCalls {
			t.Errorf("run ended: %+v", end)
		}
	}
	if done := ends(log); len(done) == 0 || done[0].Reason != schemas.CompactOverflow || model.overflows == 0 {
		t.Errorf("%d overflows, compactions %+v", model.overflows, done)
	}
	log = r.Prompted(t, "s1", strings.Repeat("word ", 3000), 9) // more than a compaction can make room for
	all := system.DataOf[*schemas.AgentEnd](log)
	last := ends(log)[len(ends(log))-1]
	if end := all[len(all)-1]; end.TerminationReason != schemas.EndError || end.ErrorMessage != "prompt is too long" {
		t.Errorf("run ended: %+v", end)
	}
	if want := "Context overflow recovery failed after one compact-and-retry attempt. Try reducing context or switching " +
		"to a larger-context model."; last.ErrorMessage != want &&
		!strings.HasPrefix(last.ErrorMessage, "Context overflow recovery failed") {
		t.Errorf("reported %q", last.ErrorMessage)
	}
	r.EmptyInbox(t)
	r.Verify(t, "s1")
}
