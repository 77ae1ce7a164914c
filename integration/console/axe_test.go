//go:build unix

package console_test

import (
	"os"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// axe checks the accessibility of the page with axe-core, and fails the test for serious violations.
func (w *window) axe(script, what string) {
	w.t.Helper()
	eval[bool](w, script+"; true")
	found := eval[[]struct{ Id, Impact, Help, Nodes string }](w, `axe.run().then((r) => r.violations.filter((v) =>
		v.impact === "serious" || v.impact === "critical").map((v) => ({ Id: v.id, Impact: v.impact, Help: v.help,
		Nodes: v.nodes.slice(0, 3).map((n) => n.html.slice(0, 150) + " " + n.failureSummary.slice(0, 200)).join(" | ") })))`)
	for _, v := range found {
		w.t.Errorf("%s: %s (%s): %s: %s", what, v.Id, v.Impact, v.Help, v.Nodes)
	}
}

// inputHadFocus notes whether the input of a session has the focus when the page gets it. An input that took the focus
// later would take it from what a person has reached with the keyboard.
const inputHadFocus = `window.hadFocus_ = undefined;
	new MutationObserver(() => { hadFocus_ ??= document.querySelector(".foot textarea")?.matches(":focus"); })
		.observe(document, { childList: true, subtree: true })`

// No view has a serious accessibility violation in the light and dark scheme, and all controls work with the keyboard.
func TestAccessibility(t *testing.T) {
	suite.LongForm(t)
	raw, err := os.ReadFile("../../console/bundle/node_modules/axe-core/axe.min.js")
	if err != nil {
		if how := "run npm ci in console/bundle"; os.Getenv("CI") != "" {
			t.Fatal(how)
		} else {
			t.Skip(how)
		}
	}
	axe := string(raw)
	model := chunked(t, echo("first"), scripted.Text("done"), echo("second"), scripted.Text("done"))
	w := newWorld(t, system.Options{Model: model,
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	w.Publish(t, "s2", schemas.CommandPrompt, `{"text":3}`)
	w.Until(t, "s2", "the refusal", bustest.Nth(1, schemas.EventCommandRejected))
	w.Prompt(t, "s1", "go") // after it, so that s1 is the newest
	w.Until(t, "s1", "the question", bustest.Nth(1, schemas.EventApprovalRequested))
	page := w.open("#/s/s1")
	for _, scheme := range []string{"light", "dark"} {
		page.scheme(scheme)
		for _, view := range [][2]string{{"#/", ".row"}, {"#/s/s1", ".approval.asks"}, {"#/approvals", ".card"},
			{"#/s/s1/e/4", ".raw"}, {"#/s/s1/e/6?from=2", ".between"}, {"#/s/s1/with/s2", ".two .asks"}, {"#/fleet", ".card"}} {
			hash, selector := view[0], view[1]
			page.do(chromedp.Navigate(w.site + "/" + hash))
			page.until("the view is there", "document.querySelector("+quoted(selector)+")")
			if hash == "#/approvals" {
				page.click(".card button", "Change the arguments")
				page.until("they can be changed", "document.querySelector('.card textarea')")
			}
			page.axe(axe, scheme+" "+hash)
		}
	}
	// From the list into a session and to its end, without a mouse.
	page.do(chromedp.Navigate(w.site + "/#/approvals"))
	page.shows(".card", "s1")
	press := func(keys string) {
		for _, key := range keys {
			page.do(chromedp.KeyEvent(string(key)))
		}
	}
	press("gs")
	page.shows(".row", "go")
	eval[bool](page, "(document.querySelector('.virtual').focus(), true)")
	press("j")
	page.until("the row has the focus", "document.activeElement.matches('.row')")
	eval[bool](page, inputHadFocus+"; true")
	page.enters()
	page.until("the answer is there", "document.querySelector('.answer .primary')")
	if !eval[bool](page, "hadFocus_") {
		t.Error("the input took the focus after the view was there")
	}
	eval[bool](page, "(document.querySelector('.answer .primary').focus(), true)")
	page.enters()
	page.shows(".end", "done")
}
