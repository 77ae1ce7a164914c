package crashpoints_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// scenario is a conversation: the replies of the model, and the actions of the user. These depend on the session's log
// only, not on which runner drives it.
type scenario struct {
	name      string
	replies   []scripted.Response
	chunkSize int  // characters in a delta; 0 is the whole reply
	worker    bool // faults happen to the worker and not to the runner
	unstored  int  // replies that a crash may cost, if more than two: summaries of a split turn, a refused reply
	children  int  // sub-agents that run at the same time
	hold      int  // number of the reply, from 1, that blocks in the middle until the trial is opened or aborted
	user      func(t *testing.T, tr *trial)
	about     []schemas.EventType // the undisturbed run must have all of these
}

// model returns the reply for the number of replies in the transcript.
func (s *scenario) model() driver.Model {
	o := scripted.Options{ChunkSize: s.chunkSize}
	if o.ChunkSize == 0 {
		o.ChunkSize = 1000
	}
	m, err := scripted.NewScripts(o, scripted.Script{Responses: s.replies})
	if err != nil {
		panic(err)
	}
	return m
}

func input(text string) schemas.Input { return schemas.Input{Text: text} }

func prompt(text string) *schemas.Prompt { return &schemas.Prompt{Input: input(text)} }

// calls returns a reply that calls tools; the ids are the tools' names with a letter for the reply.
func calls(letter string, names ...string) scripted.Response {
	var all []schemas.ToolCall
	for _, name := range names {
		all = append(all, schemas.ToolCall{ID: name + letter, Name: name})
	}
	return scripted.Calls("", all...)
}

// repeated returns a reply that calls one tool n times; the ids have the number of the call before the letter.
func repeated(letter, name string, n int) scripted.Response {
	var all []schemas.ToolCall
	for i := range n {
		all = append(all, schemas.ToolCall{ID: fmt.Sprint(name, i+1, letter), Name: name})
	}
	return scripted.Calls("", all...)
}

func sequential(t *testing.T, tr *trial) {
	tr.send(t, "modes", &schemas.SetModes{ToolExecution: schemas.ExecuteSequential})
}

var scenarios = slices.Concat(treeScenarios, []*scenario{
	{
		name: "plain", replies: []scripted.Response{scripted.Text("hello")},
		user: func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("hi")) },
	},
	{
		name: "parallel tools", replies: []scripted.Response{calls("A", toolLook, toolNote, toolPay), scripted.Text("done")},
		user: func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("go")) },
	},
	{
		name: "more calls than the window", replies: []scripted.Response{repeated("A", toolPay, 3), scripted.Text("done")},
		user: func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("go")) },
	},
	{
		name: "abort with calls held back", replies: []scripted.Response{repeated("A", toolHold, 3), scripted.Text("again")},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("go"))
			tr.wait(t, "the first call begins", tr.call("hold1A"))
			tr.send(t, "a1", &schemas.Abort{})
			tr.until(t, "the run has ended", func(s *loop.State) bool { return s.LastEnd != nil })
			tr.send(t, "p2", prompt("again"))
		},
	},
	{
		name:    "approved with other arguments",
		replies: []scripted.Response{calls("A", toolAsk, toolPay), scripted.Text("done")},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("go"))
			answer := schemas.ApprovalAnswer{By: "ann"}
			tr.until(t, "a call waits for approval", func(s *loop.State) bool {
				if s.Run == nil || s.Run.Turn == nil || len(s.Run.Turn.Calls) == 0 || !s.Run.Turn.Calls[0].AwaitsApproval() {
					return false
				}
				answer.Call, answer.Digest = s.Run.Turn.Calls[0].Key, s.Run.Turn.Calls[0].Approval.Digest
				return true
			})
			other := answer
			other.Digest = "sha256:" + strings.Repeat("0", 64)
			tr.send(t, "a0", &schemas.Approve{ApprovalAnswer: other, Args: []byte(`{"v":"not agreed"}`)})
			tr.send(t, "a1", &schemas.Approve{ApprovalAnswer: answer, Args: []byte(`{"v":"agreed"}`)})
			tr.send(t, "d1", &schemas.Deny{ApprovalAnswer: answer})
			tr.until(t, "the call was executed with what was agreed to", func(s *loop.State) bool {
				if s.Run == nil || s.Run.Turn == nil || len(s.Run.Turn.Calls) == 0 || s.Run.Turn.Calls[0].End == nil {
					return false
				}
				if got := s.Run.Turn.Calls[0].End.Result.Content.JoinText(); got != `{"v":"agreed"}` {
					t.Errorf("the call was executed with %s", got)
				}
				return true
			})
		},
	},
	{
		name: "sequential tools", replies: []scripted.Response{calls("A", toolNote, toolPay), scripted.Text("done")},
		user: func(t *testing.T, tr *trial) {
			sequential(t, tr)
			tr.send(t, "p1", prompt("go"))
		},
	},
	{
		name: "steering during tools", replies: []scripted.Response{calls("A", toolHold), calls("B", toolPay),
			scripted.Text("done")},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("go"))
			tr.wait(t, "the call begins", tr.call("holdA"))
			tr.send(t, "s1", &schemas.Steer{Input: input("left")})
			tr.send(t, "s2", &schemas.Steer{Input: input("right")})
			tr.open.fire()
		},
	},
	{
		name: "follow-ups", replies: []scripted.Response{calls("A", toolHold), scripted.Text("one"), scripted.Text("two"),
			scripted.Text("three")},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("go"))
			tr.wait(t, "the call begins", tr.call("holdA"))
			tr.send(t, "f1", &schemas.FollowUp{Input: input("and then?")})
			tr.send(t, "f2", &schemas.FollowUp{Input: input("and then??")})
			tr.open.fire()
		},
	},
	{
		name: "abort during tools", replies: []scripted.Response{calls("A", toolPay, toolHold), scripted.Text("again")},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("go"))
			tr.wait(t, "the call begins", tr.call("holdA"))
			tr.until(t, "the other call has ended", func(s *loop.State) bool {
				return s.Run != nil && s.Run.Turn != nil && len(s.Run.Turn.Calls) > 0 && s.Run.Turn.Calls[0].End != nil
			})
			tr.send(t, "a1", &schemas.Abort{})
			tr.until(t, "the run has ended", func(s *loop.State) bool { return s.LastEnd != nil })
			tr.send(t, "p2", prompt("again"))
		},
	},
	{
		name: "abort during sequential tools", replies: []scripted.Response{calls("A", toolHold, toolPay)},
		user: func(t *testing.T, tr *trial) {
			sequential(t, tr)
			tr.send(t, "p1", prompt("go"))
			tr.wait(t, "the call begins", tr.call("holdA"))
			tr.send(t, "a1", &schemas.Abort{})
		},
	},
	{
		name: "abort during the model", replies: []scripted.Response{scripted.Text("hello there")}, hold: 1, chunkSize: 6,
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("hi"))
			tr.wait(t, "the model speaks", tr.held)
			tr.send(t, "a1", &schemas.Abort{})
		},
	},
	{
		name: "a long stream", replies: []scripted.Response{scripted.Text("one two three four five six seven")}, chunkSize: 2,
		user: func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("count")) },
	},
	{
		name: "prompts in a row", replies: []scripted.Response{scripted.Text("one moment"), scripted.Text("two"),
			scripted.Text("three")}, hold: 1, chunkSize: 6,
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("first"))
			tr.wait(t, "the model speaks", tr.held) // else it depends on the machine what is stored together
			tr.send(t, "p2", prompt("second"))
			tr.until(t, "the second prompt is accepted", func(s *loop.State) bool { return s.Known.Has("p2") })
			tr.send(t, "p3", prompt("third"))
			tr.until(t, "the third prompt is accepted", func(s *loop.State) bool { return s.Known.Has("p3") })
			tr.open.fire()
		},
	},
	{
		name: "everything sent twice", replies: []scripted.Response{calls("A", toolHold), scripted.Text("one"),
			scripted.Text("two")},
		user: func(t *testing.T, tr *trial) {
			twice := func(id string, data schemas.CommandData) {
				tr.send(t, id, data)
				tr.send(t, id, data)
			}
			twice("m1", &schemas.SetThinkingLevel{ThinkingLevel: schemas.ThinkingHigh})
			twice("p1", prompt("go"))
			tr.wait(t, "the call begins", tr.call("holdA"))
			twice("s1", &schemas.Steer{Input: input("left")})
			twice("f1", &schemas.FollowUp{Input: input("and then?")})
			tr.open.fire()
			tr.settle(t)
			tr.send(t, "p1", prompt("go"))
			tr.send(t, "s1", &schemas.Steer{Input: input("left")})
			tr.send(t, "f1", &schemas.FollowUp{Input: input("and then?")})
		},
	},
	{
		name: "queues changed", replies: []scripted.Response{scripted.Text("never said"), scripted.Text("stopped")}, hold: 1,
		chunkSize: 6,
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("go"))
			tr.wait(t, "the model speaks", tr.held)
			tr.send(t, "f1", &schemas.FollowUp{Input: input("withdrawn")})
			tr.send(t, "c1", &schemas.CancelInput{InputID: "f1"})
			tr.send(t, "f2", &schemas.FollowUp{Input: input("cleared")})
			tr.send(t, "f3", &schemas.FollowUp{Input: input("cleared too")})
			tr.send(t, "q1", &schemas.ClearQueue{})
			tr.send(t, "p2", prompt("superseded"))
			tr.send(t, "p3", &schemas.Prompt{Input: input("stop that"), WhenBusy: schemas.BusyInterrupt})
		},
	},
	{
		name: "a reply that failed", replies: []scripted.Response{calls("A", toolPay), scripted.Error("refused")},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("go"))
			tr.until(t, "the run has ended", func(s *loop.State) bool { return s.LastEnd != nil })
			tr.send(t, "p2", prompt("again"))
		},
	},
	{
		name: "a family", children: 2, replies: []scripted.Response{
			agents("A", `{"prompt":"`+failing+`"}`, `{"prompt":"go","background":true,"join":true}`),
			scripted.Text("waiting"), scripted.Text("done"),
		},
		about: []schemas.EventType{schemas.EventSubagentStart, schemas.EventSubagentEnd},
		user:  func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("start")) },
	},
	{
		name: "a family aborted", children: 2, replies: []scripted.Response{
			agents("A", `{"prompt":"`+waiting+`"}`, `{"prompt":"`+waiting+` too","background":true}`), scripted.Text("done"),
		},
		about: []schemas.EventType{schemas.EventSubagentStart, schemas.EventSubagentAbort, schemas.EventSubagentEnd},
		user: func(t *testing.T, tr *trial) {
			tr.send(t, "p1", prompt("start"))
			tr.wait(t, "both sub-agents are at work", tr.atWork)
			tr.send(t, "a1", &schemas.Abort{})
			tr.until(t, "the run has ended, and every sub-agent", func(s *loop.State) bool {
				return s.LastEnd != nil && len(s.Children) == 0
			})
			tr.send(t, "p2", prompt("again"))
		},
	},
	{
		name: "a reply asked for again", replies: []scripted.Response{
			calls("A", toolPay), {Fail: []string{textRetryable, textRetryable}, Message: scripted.Text("at last").Message},
		},
		user: func(t *testing.T, tr *trial) { tr.send(t, "p1", prompt("go")) },
	},
})
