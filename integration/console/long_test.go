//go:build unix

package console_test

import (
	"flag"
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

var loads = flag.Int("loads", 0, "ask for the long session so many times more, to measure when it is shown")

// paintedWhen remembers when a text of an entry was painted: right after the frame that has it.
func paintedWhen(text string) string {
	return `window.painted = new Promise((done) => { new MutationObserver((_, o) => {
		if (!document.querySelector(".entries")?.textContent.includes(` + quoted(text) + `)) return;
		o.disconnect();
		requestAnimationFrame(() => { const { port1, port2 } = new MessageChannel();
			port1.onmessage = () => done(performance.now()); port2.postMessage(0); });
	}).observe(document, { childList: true, subtree: true, characterData: true }); });`
}

// A session of 4,000 events is shown at once, first its end, and the rest on demand. Every event can be navigated to.
func TestLongSession(t *testing.T) {
	suite.LongForm(t)
	script := make([]scripted.Response, 0, 500)
	for n := range 499 {
		script = append(script, echo(fmt.Sprintf("call %d", n)))
	}
	script = append(script, scripted.Text("that was all"))
	w := newWorld(t, system.Options{Model: chunked(t, script...), Limits: schemas.Limits{MaxTurns: 1000}})
	log := w.Prompted(t, "s1", "go", 1)
	if len(log) < 4000 {
		t.Fatalf("the session has %d events", len(log))
	}
	page := newWindow(t)
	page.before(paintedWhen("that was all"))
	page.do(chromedp.Navigate(w.site + "/#/s/s1"))
	page.shows(".entries", "that was all")
	painted := []float64{eval[float64](page, "painted")}
	for range *loads {
		page.do(chromedp.Navigate("about:blank"), chromedp.Navigate(w.site+"/#/s/s1"))
		painted = append(painted, eval[float64](page, "painted"))
	}
	page.until("all of it is read", "document.querySelector('.composer')")
	if n := eval[int](page, "document.querySelectorAll('.list > article').length"); n > 200 {
		t.Errorf("%d entries are on the page", n)
	}
	page.click(".earlier", "Show 120 earlier")
	page.until("more are shown", "document.querySelectorAll('.list > article').length > 200")
	page.until("the place is kept", "document.querySelector('.entries').scrollTop > 1000")
	page.do(chromedp.Navigate(w.site + "/#/s/s1/e/2000"))
	page.shows(".raw h2", "Event 2000:")
	// Somebody drags the scrubber: each step folds half of the log.
	took := eval[float64](page, `new Promise((done) => {
		const e = document.querySelector("input[type=range]"); const began = performance.now();
		let at = 2000; const step = () => { if (at === 2060) return done((performance.now() - began) / 60); e.value = ++at;
		e.dispatchEvent(new Event("input", { bubbles: true })); requestAnimationFrame(step); }; step(); })`)
	t.Logf("%d events: shown %.0f ms after the page was asked for; %.1f ms a step of the scrubber",
		len(log), painted, took)
}
