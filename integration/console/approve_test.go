//go:build unix

package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
)

// Somebody changes the arguments of a call that waits: what is no JSON, and what does not fit the tool, is refused and
// says why; what fits is executed, and the session says who changed what.
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
	list.shows(".card .problem", "This is no JSON")
	write(`["v"]`)
	list.shows(".card .problem", "Arguments are a JSON object.")
	write(`{"v": {"not": "a text"}}`)
	list.told("invalid_args")
	write(`{"v": "second"}`)
	list.shows("main", "Nothing waits for approval.")
	win.shows(".call .result", `"second"`)
	win.shows(".approval", "with other arguments")
	win.shows(".call summary", "Arguments that were asked about")
	win.shows(".call summary", "as /loopbus/console has changed them")
	win.shows(".end", "done")
}

// fakeNotifications has the page believe that somebody has agreed to notifications, and remembers those that are open.
const fakeNotifications = `window.open_ = new Map();
	window.Notification = class { static permission = "default";
		static async requestPermission() { return (Notification.permission = "granted"); }
		constructor(title, o) { Object.assign(this, { title, ...o }); open_.set(o.tag, this); }
		close() { open_.delete(this.tag); } };
	document.hasFocus = () => false;`

// Who asked for notifications gets one for a call that begins to wait while the page is behind others, without what a
// model wrote; answered elsewhere it goes away. Who did not ask gets none.
func TestNotifications(t *testing.T) {
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
