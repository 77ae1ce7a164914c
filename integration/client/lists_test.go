package client_test

import (
	"context"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// asking returns a system in which all calls wait for approval.
func asking(t *testing.T) *system.System {
	t.Helper()
	return system.StartAlone(t, system.Options{Model: chunked(t, echoCall(), scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
}

// following is a loop over approvals in a separate goroutine.
func following(t *testing.T, c *client.Client) <-chan client.Approval {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	list, ended := make(chan client.Approval), make(chan struct{})
	go func() {
		defer close(ended)
		for a, err := range c.Approvals(ctx) {
			if err != nil {
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
				return
			}
			select {
			case list <- a:
			case <-ctx.Done():
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-ended })
	return list
}

// next returns the next approval.
func next(t *testing.T, list <-chan client.Approval) client.Approval {
	t.Helper()
	select {
	case a := <-list:
		return a
	case <-deadline(t).Done():
		t.Fatal("no approval arrived")
	}
	return client.Approval{}
}

func TestApprovalsOfAllSessions(t *testing.T) {
	t.Parallel()
	sys := asking(t)
	c := connect(t, sys.URL)
	before := prompt(t, c.Session("before"), "go")
	over := prompt(t, c.Session("over"), "go")
	live := following(t, c)
	var waiting client.Approval
	for range 2 { // in no order
		a := next(t, live)
		if !a.Waiting || a.Request.ToolName != "echo" || a.Resolved != nil {
			t.Errorf("got %+v", a)
		}
		if a.Session == "before" {
			waiting = a
		}
	}
	if err := c.Session("over").Abort(deadline(t), "enough"); err != nil {
		t.Fatal(err)
	}
	if a := next(t, live); a.Session != "over" || a.Waiting || a.Resolved != nil {
		t.Errorf("of an aborted run: %+v", a)
	}
	if res := result(t, over); res.Reason != schemas.EndAbort {
		t.Errorf("aborted: %+v", res)
	}
	late := following(t, connect(t, sys.URL))
	if a := next(t, late); a.Session != "before" || a.Seq != waiting.Seq {
		t.Errorf("late: %+v", a)
	}
	after := prompt(t, c.Session("after"), "go")
	var asked client.Approval
	for _, list := range []<-chan client.Approval{live, late} {
		if asked = next(t, list); asked.Session != "after" || !asked.Waiting {
			t.Errorf("live: %+v", asked)
		}
	}
	if err := c.Session("before").Approve(deadline(t), waiting.Request, "looks right"); err != nil {
		t.Fatal(err)
	}
	for _, list := range []<-chan client.Approval{live, late} {
		a := next(t, list)
		if a.Session != "before" || a.Waiting || a.Resolved == nil || !a.Resolved.Approved ||
			a.Resolved.By != "/loopbus/client/"+t.Name() {
			t.Errorf("approved: %+v, %+v", a, a.Resolved)
		}
	}
	if err := c.Session("after").Deny(deadline(t), asked.Request, "not today"); err != nil {
		t.Fatal(err)
	}
	var rejected *client.RejectedError
	if err := c.Session("after").Approve(deadline(t), asked.Request, "late"); !errors.As(err, &rejected) {
		t.Errorf("the second answer: %v", err)
	}
	for _, run := range []*client.Run{before, after} {
		if res := result(t, run); res.Text() != "done" {
			t.Errorf("session %s: %+v", run.Session().ID(), res)
		}
	}
}

// If the data of one session is missing, as during its deletion, clients still get the approvals of other sessions.
func TestApprovalsBesideOneThatCannotBeRead(t *testing.T) {
	t.Parallel()
	big := scripted.Calls("", schemas.ToolCall{Name: "echo",
		Arguments: json.RawMessage(`{"v":"` + strings.Repeat("x", 300<<10) + `"}`)})
	model, err := scripted.NewScripts(scripted.Options{}, scripted.Script{Match: regexp.MustCompile("^big"),
		Responses: []scripted.Response{big}},
		scripted.Script{Responses: []scripted.Response{echoCall(), scripted.Text("done")}})
	if err != nil {
		t.Fatal(err)
	}
	sys := system.StartAlone(t, system.Options{Model: model,
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	c := connect(t, sys.URL)
	live := following(t, c)
	prompt(t, c.Session("big"), "big")
	if a := next(t, live); a.Session != "big" || len(a.Request.Args) < 300<<10 {
		t.Fatalf("got %.200v", a)
	}
	blobs, err := sys.Conn.JetStream().ObjectStore(deadline(t), schemas.BucketBlobs)
	if err != nil {
		t.Fatal(err)
	}
	list, err := blobs.List(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range list {
		if err := blobs.Delete(deadline(t), o.Name); err != nil {
			t.Fatal(err)
		}
	}
	late := following(t, connect(t, sys.URL))
	run := prompt(t, c.Session("small"), "go")
	for _, all := range []<-chan client.Approval{live, late} {
		a := next(t, all)
		if a.Session != "small" || !a.Waiting {
			t.Errorf("got %.200v", a)
		}
		if all == late {
			if err := c.Session("small").Approve(deadline(t), a.Request, ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if res := result(t, run); res.Text() != "done" {
		t.Errorf("%+v", res)
	}
}

func TestToolsThatAreAnnounced(t *testing.T) {
	t.Parallel()
	sys := system.StartAlone(t, system.Options{Model: scripted.New()})
	versioned := func(version string) tools.Tool {
		tool := system.Echo
		tool.Name, tool.Version, tool.Execute = "grep", version, system.Echo.Execute
		return tool
	}
	system.StartWorker(t, sys.Client, "w2", system.Echo, versioned("10"), versioned("9"))
	c := connect(t, sys.URL)
	system.Eventually(t, "three tools, one of two workers", func() bool {
		list, err := c.Tools(deadline(t))
		if err != nil {
			t.Fatal(err)
		}
		return len(list) == 3 && list[0].Name == "echo" && len(list[0].Workers) == 2 && list[0].Workers[0] == "bench" &&
			list[1].Version == "9" && list[2].Version == "10" && len(list[2].Workers) == 1
	})
}

func TestBranchAndContinue(t *testing.T) {
	t.Parallel()
	sys := system.StartAlone(t, system.Options{Model: chunked(t, scripted.Text("one"), scripted.Text("two"))})
	c := connect(t, sys.URL)
	result(t, prompt(t, c.Session("s1"), "go"))
	if err := c.Session("s2").Branch(deadline(t), "s1", 0); err != nil {
		t.Fatal(err)
	}
	if res := result(t, prompt(t, c.Session("s2"), "go on")); res.Text() != "two" {
		t.Errorf("got %+v", res)
	}
	run, err := c.Session("s2").Continue(deadline(t))
	if err != nil {
		t.Fatal(err)
	}
	var rejected *client.RejectedError
	if _, err := run.Wait(deadline(t)); !errors.As(err, &rejected) || rejected.Code != schemas.RejectState {
		t.Errorf("continue: %v", err)
	}
}

// A client approves a call with other arguments, first with invalid ones. The tool gets the approved arguments, and
// followers of approvals receive them.
func TestApprovedWithOtherArguments(t *testing.T) {
	t.Parallel()
	sys := asking(t)
	c := connect(t, sys.URL)
	run := prompt(t, c.Session("s1"), "go")
	live := following(t, c)
	a := next(t, live)
	approve := func(args string) error {
		return c.Session("s1").Approve(deadline(t), a.Request, "", client.WithArgs([]byte(args)))
	}
	var rejected *client.RejectedError
	if err := approve(`{"v":{}}`); !errors.As(err, &rejected) || rejected.Code != schemas.RejectInvalidArgs {
		t.Errorf("arguments that do not fit: %v", err)
	}
	if err := approve(`"text"`); !errors.As(err, &rejected) || rejected.Code != schemas.RejectInvalid {
		t.Errorf("arguments that are no object: %v", err)
	}
	if err := approve(`{"v":"agreed"}`); err != nil {
		t.Fatal(err)
	}
	if a = next(t, live); a.Resolved == nil || string(a.Resolved.Args) != `{"v":"agreed"}` {
		t.Errorf("the answer is %+v", a.Resolved)
	}
	result(t, run)
	texts := ""
	for _, e := range sys.LogOf(t, "s1") {
		if end, ok := e.Data.(*schemas.ToolExecutionEnd); ok {
			texts += end.Result.Content.JoinText()
		}
	}
	if texts != `{"v":"agreed"}` {
		t.Errorf("the tool was executed with %s", texts)
	}
	if err := c.Session("s1").Deny(deadline(t), a.Request, "", client.WithArgs([]byte("{}"))); err == nil {
		t.Error("a denial with arguments was sent")
	}
}
