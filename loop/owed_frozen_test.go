package loop_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// TestOldLogsOweTheSameEvents applies command_accepted events that do not say what follows. The events that they owe
// are written down here and never change with Accept: "+ID" is applied, "-ID" withdrawn, "/ID" superseded, "?CALL"
// resolved.
func TestOldLogsOweTheSameEvents(t *testing.T) {
	t.Parallel()
	key := schemas.NewCallKey
	yes := schemas.ApprovalAnswer{Call: key(100), By: "ann"}
	for name, c := range map[string]struct {
		state func(t *testing.T) *loop.State
		data  schemas.CommandData
		want  string
	}{
		"a setting":                    {busy, &schemas.SetThinkingLevel{ThinkingLevel: schemas.ThinkingHigh}, "+x"},
		"a setting of an idle session": {empty, &schemas.SetModes{}, "+x"},
		"prompt":                       {busy, &schemas.Prompt{}, ""},
		"prompt that interrupts":       {busy, &schemas.Prompt{WhenBusy: schemas.BusyInterrupt}, "/p2 /p3"},
		"prompt that would interrupt":  {empty, &schemas.Prompt{WhenBusy: schemas.BusyInterrupt}, ""},
		"steer":                        {busy, &schemas.Steer{}, ""},
		"follow_up":                    {busy, &schemas.FollowUp{}, ""},
		"continue":                     {empty, &schemas.Continue{}, ""},
		"abort":                        {busy, &schemas.Abort{}, "+x"},
		"abort that clears":            {busy, &schemas.Abort{ClearQueue: true}, "-p2 -p3 -s1 -f1 -f2 +x"},
		"abort of nothing":             {empty, &schemas.Abort{ClearQueue: true}, ""},
		"clear_queue":                  {busy, &schemas.ClearQueue{}, "-p2 -p3 -s1 -f1 -f2 +x"},
		"clear_queue of prompts":       {busy, &schemas.ClearQueue{Queue: "prompts"}, "-p2 -p3 +x"},
		"clear_queue of steer":         {busy, &schemas.ClearQueue{Queue: "steer"}, "-s1 +x"},
		"clear_queue of steering":      {busy, &schemas.ClearQueue{Queue: "steering"}, "-s1 +x"},
		"clear_queue of follow_up":     {busy, &schemas.ClearQueue{Queue: "follow_up"}, "-f1 -f2 +x"},
		"cancel_input":                 {busy, &schemas.CancelInput{InputID: "f1"}, "-f1 +x"},
		"cancel_input of nothing":      {busy, &schemas.CancelInput{InputID: "f9"}, ""},
		"branch":                       {copied, &schemas.Branch{Session: "s0"}, "+x"},
		"branch of the same":           {copied, &schemas.Branch{Session: "s0", Seq: 7}, "+x"},
		"branch of another":            {copied, &schemas.Branch{Session: "s0", Seq: 8}, ""},
		"branch of nothing":            {empty, &schemas.Branch{Session: "s0"}, ""},
		"approve":                      {asking(1), &schemas.Approve{}, "?c5 yes by desk +x"},
		"approve by name": {asking(2), &schemas.Approve{ApprovalAnswer: withCall(yes, key(6))},
			"?c6 yes by ann +x"},
		"approve one of two": {asking(2), &schemas.Approve{}, ""},
		"approve nothing":    {asking(1), &schemas.Approve{ApprovalAnswer: yes}, ""},
		"deny":               {asking(1), &schemas.Deny{ApprovalAnswer: withCall(yes, key(5))}, "?c5 no by ann +x"},
		"deny when idle":     {empty, &schemas.Deny{}, ""},
		"an approval's time": {asking(1), &schemas.Timer{Name: "approval_c5", Call: "c5"},
			"?c5 no by time Nobody approved the call within 1m0s +x"},
		"the time of no approval": {busy, &schemas.Timer{Name: "approval_c5", Call: "c5"}, ""},
		"a retry's time":          {busy, &schemas.Timer{Name: "retry", RunID: "r2"}, ""},
		"the run's time":          {busy, &schemas.Timer{Name: "run_deadline", RunID: "r2"}, "+x"},
		"another run's time":      {busy, &schemas.Timer{Name: "run_deadline", RunID: "r1"}, ""},
		"a command that is known": {busy, &schemas.Abort{}, "known"},
	} {
		t.Run(name, func(t *testing.T) {
			s, id := c.state(t), "x"
			if c.want == "known" {
				id, c.want = "p1", ""
			}
			raw, err := schemas.Marshal(c.data)
			if err != nil {
				t.Fatal(err)
			}
			d := &schemas.CommandAccepted{CommandID: id, Kind: c.data.CommandKind(), Source: "desk", Data: raw}
			appendAll(t, s, d)
			if diff := cmp.Diff(c.want, owedText(s)); diff != "" {
				t.Errorf("owed (-want +got):\n%s", diff)
			}
			for _, o := range s.Owed {
				if o.By != "x" {
					t.Errorf("%s is owed by %q", o.Type, o.By)
				}
			}
		})
	}
}

// TestFoldDoesNotDecide applies command_accepted events with follows that Accept would never decide: the log is right.
func TestFoldDoesNotDecide(t *testing.T) {
	t.Parallel()
	type list = []schemas.Follow
	applied := schemas.Follow{Type: schemas.EventCommandApplied}
	withdrawn := schemas.Follow{Type: schemas.EventCommandWithdrawn, CommandID: "s1", Kind: schemas.CommandSteer}
	superseded := schemas.Follow{Type: schemas.EventCommandSuperseded, CommandID: "p3", Kind: schemas.CommandPrompt}
	resolved := schemas.Follow{
		Type: schemas.EventApprovalResolved, Resolved: &schemas.ApprovalResolved{Call: "c5", ToolCallID: "t1", By: "ann"},
	}
	for name, c := range map[string]struct {
		kind    schemas.CommandKind
		data    string
		follows list
		want    string
	}{
		"an abort that clears nothing":     {schemas.CommandAbort, `{"clearQueue":true}`, list{applied}, "+x"},
		"an abort with no end":             {schemas.CommandAbort, `{"clearQueue":true}`, list{}, ""},
		"an abort that withdraws one":      {schemas.CommandAbort, `{}`, list{withdrawn, applied}, "-s1 +x"},
		"an interrupt that supersedes one": {schemas.CommandPrompt, `{"whenBusy":"interrupt"}`, list{superseded}, "/p3"},
		"a setting that answers":           {schemas.CommandSetModes, `{}`, list{resolved, applied}, "?c5 no by ann +x"},
		"a steer that is applied at once":  {schemas.CommandSteer, `{"text":"a"}`, list{applied}, "+x"},
		"a kind of a newer version":        {"future", `[`, list{withdrawn, applied}, "-s1 +x"},
		"an event of a newer version":      {schemas.CommandAbort, `{}`, list{{Type: "future"}, applied}, "+x"},
		"a resolution that is not there": {schemas.CommandApprove, `{}`, list{{Type: schemas.EventApprovalResolved}},
			""},
		"a timer of a run that is not its own": {schemas.CommandTimer, `{"name":"run_deadline","runId":"r9"}`, list{applied},
			"+x"},
	} {
		t.Run(name, func(t *testing.T) {
			s := busy(t)
			appendAll(t, s, &schemas.CommandAccepted{CommandID: "x", Kind: c.kind, Data: []byte(c.data), Follows: c.follows})
			if diff := cmp.Diff(c.want, owedText(s)); diff != "" {
				t.Errorf("owed (-want +got):\n%s", diff)
			}
		})
	}
}

// owedText abbreviates what is owed.
func owedText(s *loop.State) string {
	var list []string
	for _, o := range s.Owed {
		switch o.Type {
		case schemas.EventCommandApplied:
			list = append(list, "+"+o.ID)
		case schemas.EventCommandWithdrawn:
			list = append(list, "-"+o.ID)
		case schemas.EventCommandSuperseded:
			list = append(list, "/"+o.ID)
		case schemas.EventApprovalResolved:
			answer := "no"
			if o.Resolved.Approved {
				answer = "yes"
			}
			list = append(list, strings.TrimSpace("?"+o.ID+" "+answer+" by "+o.Resolved.By+" "+o.Resolved.Reason))
		}
	}
	return strings.Join(list, " ")
}

func withCall(a schemas.ApprovalAnswer, key schemas.CallKey) schemas.ApprovalAnswer {
	a.Call = key
	return a
}

func empty(*testing.T) *loop.State { return &loop.State{Session: "s1"} }

// copied returns a session that is a copy of another one.
func copied(t *testing.T) *loop.State {
	t.Helper()
	s := empty(t)
	appendAll(t, s, &schemas.SessionBranched{Session: "s0", Seq: 7})
	return s
}

// asking returns sessions in which n calls, the first of them c5, wait for approval.
func asking(n int) func(t *testing.T) *loop.State {
	return func(t *testing.T) *loop.State {
		t.Helper()
		s := empty(t)
		reply := &schemas.AssistantMessage{StopReason: schemas.StopToolUse}
		for _, id := range []string{"t1", "t2"}[:n] {
			reply.Content = append(reply.Content, schemas.ToolCall{ID: id, Name: "bash"})
		}
		appendAll(t, s, &schemas.AgentStart{Config: new(schemas.RunConfig)}, &schemas.TurnStart{},
			&schemas.MessageStart{MessageID: "m3", Role: schemas.RoleAssistant},
			&schemas.MessageEnd{MessageID: "m3", Message: schemas.AnyMessage{Message: reply}})
		for _, id := range []string{"t1", "t2"}[:n] {
			appendAll(t, s, &schemas.ToolExecutionStart{ToolCallID: id, ToolName: "bash"})
		}
		for _, c := range s.Run.Turn.Calls {
			appendAll(t, s, &schemas.ApprovalRequested{
				Call: c.Key, ToolCallID: c.ToolCall.ID, ToolName: "bash", TimeoutMs: time.Minute.Milliseconds(),
			})
		}
		return s
	}
}
