//go:build unix

package console_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

func itoa(n int) string { return strconv.Itoa(n) }

func echo(text string) scripted.Response {
	args, _ := json.Marshal(map[string]string{"v": text}) // a text always encodes
	return scripted.Calls("let me see", schemas.ToolCall{Name: "echo", Arguments: args})
}

// Calls of two sessions wait for approval: the badge counts them; approved in one window, a call disappears in the
// other; a denial has its reason, and the session says who decided.
func TestApprovals(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, echo("first"), scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	w.Send(t, "s1", schemas.CommandPrompt, "go")
	w.Send(t, "s2", schemas.CommandPrompt, "go")
	page, second := w.open("#/approvals"), w.open("#/s/s1")
	page.shows(".badge", "2")
	page.shows(".card", "s1")
	page.shows(".card", `"v": "first"`)
	page.until("the title counts them", "document.title.startsWith('(2)')")
	second.shows(".call", "waits for approval")
	second.click(".call button", "Approve")
	page.lacks(".card", "s1")
	page.shows(".badge", "1")
	second.shows(".approval", "Approved by")
	second.shows(".end", "done")
	page.types(".card input", "not today")
	page.click(".card button", "Deny")
	page.shows("main", "Nothing waits for approval.")
	page.do(chromedp.Navigate(w.site + "/#/s/s2"))
	page.shows(".approval", "Denied by")
	page.shows(".approval", "not today")
}

// Somebody goes through the events of a session, sees the state at each, takes the link to one elsewhere, and forks.
func TestTime(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, echo("first"), scripted.Text("done"))})
	log := w.Prompted(t, "s1", "go", 1)
	last := itoa(len(log))
	page := w.open("#/s/s1/time")
	page.shows(".facts", "event "+last+" of "+last)
	page.shows(".entries", "done: 2 turns")
	var call schemas.Event
	for _, e := range log {
		if e.Type() == schemas.EventToolExecutionStart {
			call = e
		}
	}
	at := strconv.FormatUint(call.Seq, 10)
	eval[bool](page, `(() => { const e = document.querySelector("input[type=range]"); e.value = `+at+`;
		e.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`)
	page.shows(".facts", "event "+at+" of "+last)
	page.shows(".raw", "tool_execution_start")
	page.shows(".raw dd", call.RunID)
	page.shows(".entries .call", "running")
	page.lacks(".entries", "done: 2 turns")
	hash := eval[string](page, "location.hash")
	if hash != "#/s/s1/e/"+at {
		t.Errorf("the link is %s", hash)
	}
	page.click("button", "Compare from here")
	page.do(chromedp.KeyEvent(kb.ArrowRight))
	page.shows(".facts", "event "+itoa(int(call.Seq)+1)+" of "+last)
	page.shows(".between", "1 tool_execution_end")

	other := w.open(hash)
	other.shows(".raw", "tool_execution_start")
	other.click("button", "Fork from here")
	other.until("it is another session", "/^#\\/s\\/s-/.test(location.hash)")
	other.shows(".entries", "A copy of session s1 as far as event "+at)
	other.shows(".message.user", "go")
	other.types(box, "again"+enter)
	other.shows(".end", "done")
	fork := strings.TrimPrefix(eval[string](other, "location.hash"), "#/s/")
	if branched := system.DataOf[*schemas.SessionBranched](w.LogOf(t, fork)); len(branched) != 1 ||
		branched[0].Seq != call.Seq {
		t.Errorf("the fork is of %+v", branched)
	}
	other.do(chromedp.Navigate(w.site + "/#/?parent=s1"))
	other.shows(".row", "branch")
}

// Sessions are searched and filtered, and the URL says how.
func TestSearch(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	for id, text := range map[string]string{"s1": "count the apples", "s2": "count the pears", "s3": "sing"} {
		w.Prompted(t, id, text, 1)
	}
	page := w.open("")
	page.until("all are listed", "document.querySelectorAll('.row').length === 3")
	page.types("input[type=search]", "COUNT")
	page.until("two are listed", "document.querySelectorAll('.row').length === 2")
	page.do(chromedp.Reload())
	page.until("two are listed", "document.querySelectorAll('.row').length === 2")
	if hash := eval[string](page, "location.hash"); hash != "#/?q=COUNT" {
		t.Errorf("the URL has %s", hash)
	}
	page.choose("select", "failed,damaged")
	page.shows(".empty", "No session is like this.")
	page.do(chromedp.Navigate(w.site + "/#/?status=idle&q=pears"))
	page.shows(".row", "count the pears")

	w.Prompted(t, "s4", "more pears", 1)
	page.shows(".row", "more pears") // live
}

// What runs the sessions, and what could not be delivered, which is discarded.
func TestFleet(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	w.Send(t, "s1", schemas.CommandPrompt, `{"text":3}`)
	page := w.open("#/fleet")
	page.shows("section[aria-label=Runners]", "r1")
	page.shows("section[aria-label=Tools]", "echo")
	page.shows("section[aria-label=Tools]", "bench")
	page.shows("section[aria-label=Models]", "scripted")
	page.shows("section[aria-label='Dead letters'] .card", "agent.cmd.s1.prompt")
	page.click(".card button", "Discard")
	page.shows("section[aria-label='Dead letters']", "There are none.")
}
