//go:build unix

package console_test

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/rehearsal"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/pipeline"
)

// A call of the tool agent shows the sub-agent, its state and its result, and links to it. The sub-agent shows its
// parent.
// The result of a background sub-agent arrives later. Every event about sub-agents has a description, too.
func TestSubagents(t *testing.T) {
	w := newWorld(t, system.Options{Model: &rehearsal.Model{}, Host: func(h *host.Options) {
		h.Pipeline, h.Policy.Extensions = pipeline.Build, []string{schemas.ToolAgent}
		h.Defaults.Approval.Tools = []string{"echo"}
	}})
	agent := func(call schemas.SubagentCall) string {
		call.Prompt = `call echo {"v":"x"}`
		args, err := json.Marshal(call)
		if err != nil {
			t.Fatal(err)
		}
		return "call agent " + string(args)
	}
	page := w.open("#/s/s1")
	w.Prompt(t, "s1", agent(schemas.SubagentCall{Name: "scout\u202e"}))
	page.shows(".call .child a", "scout\u27e8U+202E\u27e9")
	page.shows(".call .child .state", "waiting for approval")

	child := w.open("")
	child.click(".row.below", "scout")
	child.shows(".note", "of session s1 started this sub-agent")
	child.shows(".message.user .who", "Parent")
	child.click(".call button", "Approve")
	child.shows(".note", "Reported to the parent, session s1: this sub-agent has given its result")
	began := system.DataOf[*schemas.SubagentStart](w.LogOf(t, "s1"))
	if at := eval[string](child, "location.hash"); len(began) != 1 || at != "#/s/"+began[0].Session {
		t.Errorf("the row of the sub-agent leads to %s", at)
	}
	page.shows(".call .child .state", "has given its result")
	page.shows(".end", "done")

	page.types(box, agent(schemas.SubagentCall{Name: "slow", Background: true})+enter)
	page.until("both runs have ended", "document.querySelectorAll('.end').length === 2")
	page.shows(".call .child", "in the background")
	page.click(".call:not(.running) .child a", "slow")
	page.shows("h1", "slow")
	page.click(".call button", "Approve")
	page.shows(".end", "done")
	page.click(".note a", "started this sub-agent") // to the call
	page.shows(".raw h2", "tool_execution_start")
	page.do(chromedp.Navigate(w.site + "/#/s/s1"))
	page.shows(".message.user .who", "Sub-agent")
	page.until("three runs have ended", "document.querySelectorAll('.end').length === 3")

	for _, e := range w.LogOf(t, "s1") {
		want := ""
		switch d := e.Data.(type) {
		case *schemas.SubagentStart:
			want = "starts the sub-agent " + map[bool]string{false: "scout\u27e8U+202E\u27e9", true: "slow"}[d.Background] +
				", session " + d.Session
		case *schemas.SubagentEnd:
			want = "session " + d.Session + ", has given its result (done)"
		default:
			continue
		}
		page.do(chromedp.Navigate(w.site + "/#/s/s1/e/" + strconv.FormatUint(e.Seq, 10)))
		page.shows(".raw h2", string(e.Type()))
		page.shows(".words", want)
	}
}
