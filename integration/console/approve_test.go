//go:build unix

package console_test

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// A user changes the arguments of a call that waits for approval. Invalid JSON and arguments that do not match the
// schema are refused with the reason. Valid ones are executed, and the session shows who changed what.
func TestApproveWithOtherArguments(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, echo("first"), scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	w.Prompt(t, "s1", "go")
	list, win := w.open("#/approvals"), w.open("#/s/s1")
	list.shows(".card", `"v": "first"`)
	list.click(".card button", "Change the arguments")
	write := func(text string) {
		t.Helper()
		list.until("the arguments can be written", "document.querySelector('.card textarea')")
		eval[bool](list, `(() => { const e = document.querySelector(".card textarea"); e.value = `+quoted(text)+`;
			e.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`)
		list.click(".card button", "Approve as changed")
	}
	write(`{"v": `)
	list.shows(".card .problem", "This is not JSON")
	write(`["v"]`)
	list.shows(".card .problem", "The arguments must be a JSON object.")
	write(`{"v": {"not": "a text"}}`)
	list.told("invalid_args")
	write(`{"v": "second"}`)
	list.shows("main", "Nothing waits for approval.")
	win.shows(".call .result", `"second"`)
	win.shows(".approval", "with other arguments")
	win.shows(".call summary", "Arguments that were asked about")
	win.shows(".call summary", "changed by /loopbus/console")
	win.shows(".end", "done")
}

// holdsFrames lets the test hold back incoming frames, so that the page does not change.
const holdsFrames = `window.held_ = null;
	const frame = requestAnimationFrame, every = setInterval;
	window.requestAnimationFrame = (f) => held_ ? held_.push(f) : frame(f);
	window.setInterval = (f, ...o) => every(() => held_ ? 0 : f(), ...o);
	window.release_ = () => { const all = held_; held_ = null; all.forEach((f) => frame(f)); return true; };`

// A user clicks on a request for approval after the session was deleted and started again, with other arguments under
// the same key. The page shows that the answer was rejected, and the call still waits. Then the page shows the new
// request, and the next click counts.
func TestAClickIsForWhatIsShown(t *testing.T) {
	model, err := scripted.NewScripts(scripted.Options{},
		scripted.Script{Match: regexp.MustCompile("^again"), Responses: []scripted.Response{echo("second"),
			scripted.Text("done")}}, scripted.Script{Responses: []scripted.Response{echo("first")}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, system.Options{Model: model, Host: func(h *host.Options) {
		h.Defaults.Approval.Tools = []string{"*"}
	}})
	w.Prompt(t, "s1", "go")
	pages := map[string]*window{"Approve": newWindow(t), "Deny": newWindow(t)}
	for _, page := range pages {
		page.before(holdsFrames)
		page.do(chromedp.Navigate(w.site + "/#/approvals"))
		page.shows(".card", "first")
		eval[bool](page, "(held_ = [], true)")
	}
	w.Anew(t, "s1", "again")
	for answer, page := range pages {
		page.click(".card button", answer)
		eval[bool](page, "release_()")
		page.told(answer + ": refused")
		page.told("look at the call again")
		page.shows(".card", "second")
		page.lacks(".card", "first")
	}
	w.Unanswered(t, "s1")
	pages["Deny"].click(".card button", "Approve")
	pages["Approve"].shows("main", "Nothing waits for approval.")
	w.Until(t, "s1", "the end of the run", system.Ends(1))
}

// fakeNotifications makes the page believe that the user allows notifications, and records the open ones.
const fakeNotifications = `window.open_ = new Map();
	window.Notification = class { static permission = "default";
		static async requestPermission() { return (Notification.permission = "granted"); }
		constructor(title, o) { Object.assign(this, { title, ...o }); open_.set(o.tag, this); }
		close() { open_.delete(this.tag); } };
	document.hasFocus = () => false;`

// A user who has enabled notifications gets one for a call that starts to wait while the page is in the background. It
// has no text of a model, and closes when the call is answered elsewhere. Other users get none.
func TestNotifications(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, echo("a secret"), scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	w.Prompt(t, "before", "go")
	open := func() *window {
		win := newWindow(t)
		win.before(fakeNotifications)
		win.do(chromedp.Navigate(w.site + "/#/approvals"))
		win.shows(".card", "before")
		return win
	}
	asked, silent := open(), open()
	eval[bool](asked, "(document.querySelector('input[type=checkbox]').click(), true)")
	asked.until("they are on", "document.querySelector('input[type=checkbox]').checked && "+
		"localStorage.getItem('loopbus.notify') === 'on'")
	for _, win := range []*window{asked, silent} { // what has waited before a page was opened is no news to it
		eval[bool](win, "(Date.now = ((now) => () => now() + 6000)(Date.now), true)") // the page is no longer new
	}
	w.Prompt(t, "after", "go")
	for _, win := range []*window{asked, silent} {
		win.shows(".card", "after")
	}
	asked.until("one is shown", "open_.size === 1")
	if got := eval[string](asked, "[...open_.values()].map((n) => n.title + ' ' + n.body).join()"); got !=
		"loopbus: a call waits for approval echo in after" {
		t.Errorf("the notification is %q", got)
	}
	if n := eval[int](silent, "open_.size"); n != 0 {
		t.Errorf("%d were shown to somebody who did not ask", n)
	}
	silent.do(chromedp.Navigate(w.site + "/#/s/after"))
	silent.click(".call button", "Deny")
	asked.until("it is gone", "open_.size === 0")
	asked.lacks(".card", "after")
}

// A result that is too large for the log ends its own call. Another call of the session still waits for approval.
func TestALargeResultEndsNoOtherCall(t *testing.T) {
	suite.LongForm(t)
	loud := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "loud", Parameters: json.RawMessage(`{"type":"object"}`)},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			return schemas.TextResult(strings.Repeat("x", 400<<10)), nil
		}}
	both := scripted.Calls("", schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"waits"}`)},
		schemas.ToolCall{Name: "echo", Arguments: json.RawMessage(`{"v":"waits, too"}`)},
		schemas.ToolCall{Name: "loud", Arguments: json.RawMessage(`{}`)})
	w := newWorld(t, system.Options{Model: chunked(t, both, scripted.Text("done")), Tools: []tools.Tool{loud},
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"echo", "loud"} }})
	list := w.open("#/approvals")
	list.shows("main", "Nothing waits for approval.")
	w.Prompt(t, "s1", "go")
	list.until("three calls wait", "document.querySelectorAll('.card').length === 3")
	list.until("the loud one is approved", `(() => { const card = [...document.querySelectorAll(".card")].find((c) =>
		c.querySelector(".tool").innerText === "loud"); card.querySelector("button").click(); return true; })()`)
	w.Until(t, "s1", "the result", func(e schemas.Event) bool { return e.Type() == schemas.EventToolExecutionEnd })
	list.until("the others wait", `document.querySelectorAll(".card").length === 2 &&
		!document.querySelector(".cards").innerText.includes("loud")`)
}
