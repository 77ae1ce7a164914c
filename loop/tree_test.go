package loop_test

import (
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

var treeSeeds = flag.Uint64("tree.seeds", 30, "sessions that TestContextIsThePathToTheLeaf plays, by seeds from 0 on")

// gardener grows a session's tree: it does what a driver does, with a model and tools that answer at random, and dies
// now and then.
type gardener struct {
	*rand.Rand
	t       *testing.T
	s       *loop.State
	log     []schemas.Event
	entries []string // ids
	n       int
}

func (g *gardener) append(data schemas.EventData, cause string) {
	g.t.Helper()
	e := g.s.Envelope(data)
	e.Session, e.CausationID, e.Time = "s1", cause, time.UnixMilli(int64(e.Seq)).UTC()
	tree := g.s.Tree
	for _, n := range tree.Apply(e) {
		g.entries = append(g.entries, n.ID)
	}
	if err := g.s.Apply(e); err != nil {
		g.t.Fatal(err)
	}
	g.log = append(g.log, e)
}

// command has a command accepted; if the process dies, only some of its events are stored.
func (g *gardener) command(data schemas.CommandData) {
	g.t.Helper()
	g.n++
	c := schemas.Command{ID: fmt.Sprint("c", g.n), Session: "s1", Data: data}
	raw, err := schemas.Marshal(data)
	if err != nil {
		g.t.Fatal(err)
	}
	for len(g.s.Owed) > 0 {
		g.step()
	}
	for _, e := range loop.Accept(g.s, c, raw, loop.Rules{}) {
		g.append(e, c.ID)
		if g.IntN(8) == 0 {
			return
		}
	}
}

// step carries out the next step; it returns false at rest.
func (g *gardener) step() bool {
	g.t.Helper()
	switch step := loop.Next(g.s).(type) {
	case loop.Emit:
		g.append(step.Data, step.CausationID)
	case loop.StartRun:
		start := &schemas.AgentStart{SkipSteering: step.SkipSteering, Config: g.config()}
		for _, in := range step.Inputs {
			start.Inputs = append(start.Inputs, in.CommandID)
		}
		g.append(start, "")
	case loop.CallModel:
		g.reply()
	case loop.RunTools:
		c := g.s.Run.Turn.Calls[step.Calls[0]]
		if c.Key == "" {
			g.append(&schemas.ToolExecutionStart{ToolCallID: c.ToolCall.ID, ToolName: c.ToolCall.Name}, "")
			break
		}
		g.append(&schemas.ToolExecutionEnd{ToolCallID: c.ToolCall.ID, Call: c.Key, Result: schemas.TextResult("ok")}, "")
	case loop.Retry:
		g.append(step.Then, "")
	case loop.Navigate:
		g.navigate(step)
	case loop.StartCompaction:
		g.append(g.s.CompactionStart(step, *g.config()), step.CommandID)
	case loop.Summarize:
		g.append(g.s.SummaryEnd(g.summary(), true), "")
	default:
		return false
	}
	return true
}

func (g *gardener) config() *schemas.RunConfig {
	return &schemas.RunConfig{Model: schemas.ModelRef{ID: "m"}, Retry: schemas.RetryPolicy{MaxRetries: 2},
		Compaction:    schemas.CompactionPolicy{Enabled: true, ReserveTokens: 30, KeepRecentTokens: 30},
		ContextWindow: 150}
}

// summary is a model's reply to a request for a summary: sometimes empty, and sometimes a failure that is not retried.
func (g *gardener) summary() *schemas.AssistantMessage {
	m := &schemas.AssistantMessage{StopReason: schemas.StopStop, Content: schemas.Contents{schemas.Text{Text: "summary"}}}
	switch g.IntN(6) {
	case 0:
		m.Content = nil
	case 1:
		m.StopReason, m.ErrorMessage = schemas.StopError, "overloaded"
	}
	return m
}

func (g *gardener) reply() {
	g.t.Helper()
	if wrong := unanswered(g.s.Transcript()); wrong != "" {
		g.t.Fatalf("a model is called after event %d: %s", g.s.Seq, wrong)
	}
	id := g.s.MessageID()
	g.append(&schemas.MessageStart{MessageID: id, Role: schemas.RoleAssistant}, "")
	m := &schemas.AssistantMessage{
		StopReason: schemas.StopStop,
		Content:    schemas.Contents{schemas.Text{Text: "reply " + id}},
	}
	end := &schemas.MessageEnd{MessageID: id, Message: schemas.AnyMessage{Message: m}}
	switch g.IntN(8) {
	case 0:
		end.Interrupted = true // the process died; the next one continues
	case 1:
		m.StopReason, m.ErrorMessage, end.Retryable = schemas.StopError, "overloaded", true
		if g.IntN(2) == 0 {
			end.Retryable, end.FailureCode = false, schemas.FailureContextOverflow
		}
	case 2, 3, 4:
		m.StopReason = schemas.StopToolUse
		for i := range 1 + g.IntN(2) {
			m.Content = append(
				m.Content,
				schemas.ToolCall{ID: fmt.Sprint("t", i, id), Name: "echo", Arguments: json.RawMessage(`{}`)},
			)
		}
	}
	g.append(end, "")
}

func (g *gardener) navigate(step loop.Navigate) {
	g.t.Helper()
	s := &loop.State{}
	for _, e := range g.log {
		path, err := s.Enter(e, step.TargetID)
		if err != nil {
			g.t.Fatal(err)
		}
		if path != nil {
			g.append(g.s.Moved(path, loop.Asking(*g.config())), step.CommandID)
			return
		}
	}
	g.append(&schemas.CommandRejected{CommandID: step.CommandID, Code: schemas.RejectNotFound}, step.CommandID)
}

func (g *gardener) entry() string {
	if len(g.entries) == 0 || g.IntN(10) == 0 {
		return "m1"
	}
	return g.entries[g.IntN(len(g.entries))]
}

func (g *gardener) anything() schemas.CommandData {
	in := schemas.Input{Text: fmt.Sprint("input ", g.n)}
	all := []schemas.CommandData{
		&schemas.Prompt{Input: in}, &schemas.Prompt{Input: in}, &schemas.Steer{Input: in}, &schemas.Abort{},
		&schemas.Navigate{TargetID: g.entry(), Label: []string{"", "here"}[g.IntN(2)]}, &schemas.Compact{},
		&schemas.Navigate{TargetID: g.entry(), Summarize: true},
		&schemas.Label{TargetID: g.entry(), Label: fmt.Sprint("l", g.IntN(3))}, &schemas.Custom{CustomType: "c"},
		&schemas.AddMessage{CustomType: "note", Content: schemas.Contents{schemas.Text{Text: "note"}}},
	}
	return all[g.IntN(len(all))]
}

// failedReply reports whether a message is a reply that no model gets. A reply that is retried stays on the path if an
// entry is below it, and if a navigation goes there.
func failedReply(m schemas.Message) bool {
	reply, ok := m.(*schemas.AssistantMessage)
	return ok && reply.Failed()
}

// forest is a session's tree as it grows.
type forest struct {
	tree  loop.Tree
	nodes map[string]loop.Node
	kept  map[string]string // by compaction, the first entry that stayed
}

func (f *forest) apply(e schemas.Event) {
	for _, n := range f.tree.Apply(e) {
		f.nodes[n.ID] = n
		if d, ok := e.Data.(*schemas.CompactionEnd); ok {
			f.kept[n.ID] = d.FirstKeptEntryID
		}
	}
}

// path is what a model must get, by the tree alone: the path from the root to the leaf.
//
// After a compaction it is the summary, the messages that the compaction kept, and those that came later.
func (f *forest) path() (ids []string) {
	var summary, until string
	for id := f.tree.Leaf; id != ""; id = f.nodes[id].Parent {
		m := f.nodes[id].Message
		if f.nodes[id].Type == schemas.EntryCompaction {
			if summary == "" {
				summary, until = id, f.kept[id]
			}
			continue
		}
		if m != nil && !failedReply(m) {
			ids = append(ids, id)
		}
		if summary != "" && id == until {
			break
		}
	}
	if summary != "" {
		ids = append(ids, summary)
	}
	slices.Reverse(ids)
	return ids
}

// TestContextIsThePathToTheLeaf plays random sequences of prompts, moves, labels and entries, with crashes anywhere: a
// model gets the path from the root of the tree to its leaf, the fold is the same from every snapshot, and no result is
// without its call.
func TestContextIsThePathToTheLeaf(t *testing.T) {
	t.Parallel()
	compactions := 0
	for seed := range *treeSeeds {
		g := &gardener{Rand: rand.New(rand.NewPCG(seed, 12)), t: t, s: &loop.State{Session: "s1"}}
		for range 80 {
			g.command(g.anything())
			for n := g.IntN(30); n > 0 && g.step(); n-- {
			}
		}
		for g.step() {
		}
		compactions += g.check(seed)
		for range 10 {
			g.fork(seed, g.entry(), []schemas.BranchPosition{schemas.BranchAt, schemas.BranchBefore}[g.IntN(2)])
		}
	}
	if compactions == 0 {
		t.Error("nothing was compacted")
	}
}

// check folds the log again, and returns how often a context was compacted.
func (g *gardener) check(seed uint64) (compactions int) {
	g.t.Helper()
	s, trees := &loop.State{}, &forest{nodes: map[string]loop.Node{}, kept: map[string]string{}}
	for i, e := range g.log {
		if i%50 == 0 {
			loaded := &loop.State{}
			if err := json.Unmarshal(marshal(g.t, s), loaded); err != nil {
				g.t.Fatal(err)
			}
			s = loaded
		}
		if err := s.Apply(e); err != nil {
			g.t.Fatal(err)
		}
		trees.apply(e)
		want := trees.path()
		var got []string
		for _, m := range s.Messages {
			if !failedReply(m.Message.Message) {
				got = append(got, m.ID)
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			g.t.Fatalf("seed %d, after event %d, %s: context (-path +state):\n%s", seed, e.Seq, e.Type(), d)
		}
		if wrong := illegal(s.Transcript()); wrong != "" {
			g.t.Fatalf("seed %d, after event %d, %s: %s", seed, e.Seq, e.Type(), wrong)
		}
	}
	if d := cmp.Diff(string(marshal(g.t, g.s)), string(marshal(g.t, s))); d != "" {
		g.t.Fatalf("seed %d (-live +folded):\n%s", seed, d)
	}
	return len(trees.kept)
}

// A move keeps nothing of what it leaves: a session at rest counts as much as its context.
func TestAMoveKeepsNothingOfWhatItLeaves(t *testing.T) {
	t.Parallel()
	freed := make(chan struct{})
	s := &loop.State{Session: "s1", Seq: 4, Messages: make([]loop.Entry, 1)}
	func() {
		m := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "large"}}}
		runtime.SetFinalizer(m, func(*schemas.UserMessage) { close(freed) })
		s.Messages[0] = loop.Entry{ID: "m1", Message: schemas.AnyMessage{Message: m}}
	}()
	if err := s.Apply(s.Envelope(&schemas.Leaf{TargetID: "m1", OldLeafID: "m1"})); err != nil {
		t.Fatal(err)
	}
	wantFreed(t, freed, "the message that was left is kept")
	runtime.KeepAlive(s)
}
