//go:build unix

package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

const (
	box   = ".composer textarea"
	reply = ".message.assistant .text"
)

// speaking is a page that shows a model in the middle of its reply, which goes on when the model is released.
func speaking(t *testing.T) (*world, *window, *system.Gated) {
	t.Helper()
	model := system.NewGated(6, chunked(t, scripted.Text("a reply that is long enough")))
	w := newWorld(t, system.Options{Model: model})
	t.Cleanup(model.Release)
	page := w.open("#/s/s1")
	page.types(box, "go"+enter)
	page.shows(reply, "a repl")
	return w, page, model
}

// A user sends a prompt, sees tokens arrive, steers, reloads in the middle of the reply and still has all of it, and
// sees the end. A second window shows the same.
func TestPromptAndSteer(t *testing.T) {
	model := system.NewGated(6, chunked(t, scripted.Text("a reply that is long enough"), scripted.Text("steered")))
	w := newWorld(t, system.Options{Model: model})
	t.Cleanup(model.Release)
	page := w.open("")
	page.shows("main", "There are no sessions yet.")
	page.click("button", "New session")
	page.shows(".session", "No messages yet.")
	page.types(box, "go on"+enter)
	page.shows(".message.user", "go on")
	page.shows(reply, "a repl")
	page.shows(".message.assistant header", "streaming")
	page.shows(".facts", "the model is answering")

	second := w.open("")
	second.shows(".row .state", "running")
	second.click(".row", "go on")
	second.shows(reply, "a repl")

	page.types(box, "the other way"+enter)
	for _, win := range []*window{page, second} {
		win.shows(".queue", "the other way")
	}
	page.told("Steer: done")
	page.do(chromedp.Reload())
	page.shows(reply, "a repl")
	page.shows(".queue", "the other way")
	model.Release()
	for _, win := range []*window{page, second} {
		win.shows(reply, "a reply that is long enough")
		win.shows(reply, "steered")
		win.shows(".message.user", "the other way")
		win.shows(".end", "done: 2 turns")
		if got := eval[int](win, "document.querySelectorAll('.message').length"); got != 4 {
			t.Errorf("%d messages are shown", got)
		}
	}
	second.do(chromedp.Navigate(w.site + "/#/"))
	second.shows(".row .state", "at rest")
}

// A run can be aborted, and queued inputs can be withdrawn. A rejected command shows the reason.
func TestAbortAndWithdraw(t *testing.T) {
	w, page, _ := speaking(t)
	page.choose(".composer select", "followUp")
	page.types(box, "and then"+enter)
	page.shows(".queue .card", "and then")
	page.click(".queue button", "×")
	page.until("the queue is empty", "!document.querySelector('.queue')")
	page.choose(".composer select", "prompt")
	page.types(box, "later"+enter)
	page.shows(".queue .card", "runs later")
	page.click(".queue button", "×")
	page.until("the queue is empty", "!document.querySelector('.queue')")
	page.click(".composer button", "Abort")
	page.shows(".end", "aborted")
	page.told("Abort: done")
	page.until("there is nothing to abort", "!document.querySelector('.composer .danger')")
	if reasons := system.Reasons(w.LogOf(t, "s1")); len(reasons) != 1 || reasons[0] != schemas.EndAbort {
		t.Errorf("the log has %v", reasons)
	}
}

// The server is restarted in the middle of a reply: the page reconnects by itself and misses nothing.
func TestServerRestart(t *testing.T) {
	w, page, model := speaking(t)
	w.server.Shutdown()
	page.shows(".link.down", "Reconnecting")
	w.startServer()
	page.shows(".link.up", "connected")
	model.Release()
	page.shows(reply, "a reply that is long enough")
	page.shows(".end", "done: 1 turn,")
	page.types(box, "again"+enter)
	page.until("there are two runs", "document.querySelectorAll('.end').length === 2")
	want := len(w.LogOf(t, "s1"))
	page.do(chromedp.Navigate(w.site + "/#/s/s1/time"))
	page.shows(".time .facts", "of")
	if got := page.textOf(".time .facts [role=status]"); !strings.HasSuffix(got, "of "+itoa(want)) {
		t.Errorf("the page has %q, the log %d events", got, want)
	}
}

// A user sends an earlier message again. The messages that followed it are on another branch, which stays visible.
func TestSayItAnew(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("an answer"))})
	w.Prompted(t, "s1", "count the apples", 1)
	page := w.open("#/s/s1")
	page.shows(reply, "an answer")
	page.click(".message.user button", "Say it anew")
	page.until("the text is in the box", "document.querySelector('.composer textarea').value === 'count the apples'")
	page.shows(".message.user.left", "on another branch")
	page.types(box, " and pears"+enter)
	page.shows(".message.assistant:not(.left)", "an answer")
	page.shows(".message.user:not(.left)", "count the apples and pears")
	page.do(chromedp.Reload())
	page.shows(".message.user:not(.left)", "count the apples and pears")
	page.shows(".message.assistant.left", "an answer")
}
