//go:build unix

package console_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
)

// On a phone nothing lies over something else, what somebody has chosen is in sight, and words are whole. A session
// whose run has failed says so as the list does.
func TestLayoutOfAPhone(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, echo("first"), scripted.Error("no more of this"))})
	w.Prompted(t, "s1", "go", 1)
	page := w.open("#/s/s1")
	page.do(chromedp.EmulateViewport(390, 600))
	page.shows(".facts .state.failed", "failed")
	page.click(".settings summary", "Settings")
	page.shows(".choices", "Profile")
	page.until("the end is in sight above the settings", `(() => { const e = document.querySelector(".entries");
		return e.scrollHeight > e.clientHeight && e.scrollHeight - e.scrollTop - e.clientHeight < 2; })()`)
	page.do(chromedp.Navigate(w.site + "/#/s/s1/e/12"))
	page.shows(".raw h2", "Event 12")
	page.until("the event is in sight in the list", `(() => {
		const list = document.querySelector(".events").getBoundingClientRect();
		const now = document.querySelector(".events [aria-current]").getBoundingClientRect();
		return now.top >= list.top && now.bottom <= list.bottom; })()`)
	page.until("the event is above the conversation", `document.querySelector(".raw").getBoundingClientRect().bottom <=
		document.querySelector(".time .entries").getBoundingClientRect().top`)
	page.do(chromedp.Navigate(w.site + "/#/fleet"))
	page.shows("section[aria-label=Models]", "scripted")
	page.until("no heading of a table is broken",
		"[...document.querySelectorAll('thead th')].every((e) => e.getBoundingClientRect().height < 32)")
	page.until("nothing is wider than a phone", "document.documentElement.scrollWidth <= 390")
}
