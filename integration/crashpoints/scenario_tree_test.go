package crashpoints_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// textOverflow is the error of replies whose context is too long.
const textOverflow = "prompt is too long"

// narrow is a model with a small window.
const (
	narrow       = "narrow"
	narrowWindow = 400
)

// Requests for summaries, of a whole history and of a branch, are identified by their limit of tokens. A scenario's
// hold can name these.
const (
	holdCompaction = 1 - compactReserve*4/5
	holdBranch     = 1 - 2048
)

// twoRuns completes two runs and returns the ids of the session's entries, in the order of the path.
func twoRuns(t *testing.T, tr *trial) (ids []string) {
	for n, text := range []string{"first", "second"} {
		tr.send(t, fmt.Sprint("p", n+1), prompt(text))
		tr.until(t, "the run has ended", func(s *loop.State) bool {
			ids = nil
			for _, e := range s.Messages {
				ids = append(ids, e.ID)
			}
			return s.Runs == n+1 && s.Run == nil
		})
	}
	return ids
}

// stopped sends a command that makes a summary, and aborts it while the model writes the summary.
func stopped(t *testing.T, tr *trial, id string, data schemas.CommandData) {
	tr.send(t, id, data)
	tr.wait(t, "the model writes the summary", tr.held)
	tr.send(t, "a1", &schemas.Abort{})
	tr.until(t, "the summary is aborted", func(s *loop.State) bool { return s.Known.Has("a1") && !s.Busy() })
	tr.send(t, "p3", prompt("third"))
}

// source writes the log of another session, whose entries are x1.0 and so on, and returns its id.
func source(t *testing.T, tr *trial, texts ...string) string {
	var messages schemas.Messages
	for i, text := range texts {
		messages = append(messages, &schemas.UserMessage{
			Content: schemas.Contents{schemas.Text{Text: text}}, Timestamp: int64(i + 1),
		})
	}
	name := tr.session + "-source"
	log, err := tr.store.Open(tr.ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	e := (&loop.State{Session: name}).Envelope(&schemas.TranscriptReplaced{Messages: messages})
	e.Source = "/loopbus/test"
	if err = log.Append(tr.ctx, e); err == nil {
		err = log.Flush(tr.ctx)
	}
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// treeScenarios change a session's tree, or summarize its context.
var treeScenarios = []*scenario{
	{
		name: "navigation", replies: []scripted.Response{scripted.Text("one"), scripted.Text("two"), scripted.Text("three")},
		about: []schemas.EventType{schemas.EventLeaf, schemas.EventLabel, schemas.EventCustomMessage},
		user: func(t *testing.T, tr *trial) {
			ids := twoRuns(t, tr)
			tr.send(t, "n1", &schemas.Navigate{TargetID: ids[2], Label: "again"})
			tr.send(t, "p3", prompt("third"))
			tr.until(t, "the third run has ended", func(s *loop.State) bool { return s.Runs == 3 && s.Run == nil })
			tr.send(t, "n2", &schemas.Navigate{TargetID: ids[3]})
			tr.until(t, "the leaf was moved", func(s *loop.State) bool { return s.Known.Has("n2") && s.Tree.Leaf == ids[3] })
			tr.send(t, "l1", &schemas.Label{TargetID: ids[0], Label: "start"})
			tr.send(t, "x1", &schemas.AddMessage{CustomType: "note", Content: schemas.Contents{schemas.Text{Text: "beware"}}})
		},
	},
	{
		name: "a compaction asked for", unstored: 3,
		replies: []scripted.Response{scripted.Text("one"), scripted.Text("two")},
		about:   []schemas.EventType{schemas.EventCompactionEnd},
		user: func(t *testing.T, tr *trial) {
			twoRuns(t, tr)
			tr.send(t, "k1", &schemas.Compact{CustomInstructions: "Mind the tests."})
			tr.send(t, "p3", prompt("third"))
		},
	},
	{
		name: "a branch summed up", replies: []scripted.Response{scripted.Text("one"), scripted.Text("two")},
		about: []schemas.EventType{schemas.EventBranchSummaryStart, schemas.EventSummaryEnd, schemas.EventLeaf},
		user: func(t *testing.T, tr *trial) {
			ids := twoRuns(t, tr)
			tr.send(t, "n1", &schemas.Navigate{TargetID: ids[1], Summarize: true, Label: "left"})
			tr.send(t, "p3", prompt("third"))
		},
	},
	{
		name: "a compaction in time", unstored: 3, replies: []scripted.Response{scripted.Text("one"), scripted.Text("two"),
			calls("A", toolPay)},
		about: []schemas.EventType{schemas.EventCompactionStart, schemas.EventToolExecutionEnd, schemas.EventSummaryEnd},
		// The compaction happens between the tool and the next model call, and splits the turn.
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "m1", &schemas.SetModel{Model: schemas.ModelRef{API: "scripted", Provider: "scripted", ID: narrow}})
			twoRuns(t, tr)
			tr.send(t, "p3", prompt(strings.Repeat("long ", narrowWindow)))
		},
	},
	{
		name: "an overflow", unstored: 3,
		replies: []scripted.Response{scripted.Text("one"), scripted.Text("two"), scripted.Error(textOverflow)},
		about:   []schemas.EventType{schemas.EventCompactionEnd},
		user: func(t *testing.T, tr *trial) {
			twoRuns(t, tr)
			tr.send(t, "p3", prompt("third"))
		},
	},
	{
		name: "a compaction stopped", unstored: 3,
		replies: []scripted.Response{scripted.Text("one and more"), scripted.Text("two")},
		hold:    holdCompaction, chunkSize: 6,
		about: []schemas.EventType{schemas.EventCompactionEnd},
		user: func(t *testing.T, tr *trial) {
			twoRuns(t, tr)
			stopped(t, tr, "k1", &schemas.Compact{})
		},
	},
	{
		name: "a branch summary stopped", replies: []scripted.Response{scripted.Text("one and more"), scripted.Text("two"),
			scripted.Text("three")},
		hold: holdBranch, chunkSize: 6,
		about: []schemas.EventType{schemas.EventBranchSummaryEnd},
		user: func(t *testing.T, tr *trial) {
			ids := twoRuns(t, tr)
			stopped(t, tr, "n1", &schemas.Navigate{TargetID: ids[1], Summarize: true})
		},
	},
	{
		name: "entries of an application", replies: []scripted.Response{scripted.Text("one")},
		about: []schemas.EventType{schemas.EventCustom, schemas.EventCustomMessage, schemas.EventSessionInfo,
			schemas.EventLabel},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "c1", &schemas.Custom{CustomType: "todo", Data: []byte(`{"open":1}`)})
			tr.send(t, "x1", &schemas.AddMessage{CustomType: "note", Content: schemas.Contents{schemas.Text{Text: "beware"}}})
			tr.send(t, "t1", &schemas.Name{Name: "a tree"})
			tr.send(t, "p1", prompt("first"))
			leaf := ""
			tr.until(t, "the run has ended", func(s *loop.State) bool { leaf = s.Tree.Leaf; return s.Runs == 1 && s.Run == nil })
			tr.send(t, "l1", &schemas.Label{TargetID: leaf, Label: "here"})
			tr.send(t, "l2", &schemas.Label{TargetID: leaf})
			tr.send(t, "c2", &schemas.Custom{CustomType: "todo"})
		},
	},
	{
		name: "a fork before a message", replies: []scripted.Response{scripted.Text("one")},
		about: []schemas.EventType{schemas.EventSessionBranched},
		user: func(t *testing.T, tr *trial) {
			from := source(t, tr, "kept", "said anew")
			tr.send(t, "f1", &schemas.Branch{Session: from, EntryID: "x1.1", Position: schemas.BranchBefore})
			tr.send(t, "p1", prompt("said differently"))
		},
	},
}
