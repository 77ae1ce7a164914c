//go:build unix

package console_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// Sessions are shown below the session that they come from, as a tree that can be folded with the mouse and the
// keyboard.
func TestFamilies(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	w.Prompted(t, "alone", "sing", 1)
	w.Prompted(t, "root", "count the apples", 1)
	for _, of := range []struct{ session, parent string }{
		{"child", "root"}, {"grandchild", "child"}, {"sibling", "root"},
	} {
		w.Send(t, of.session, &schemas.Branch{Session: of.parent})
		w.Prompted(t, of.session, "as "+of.session, 1)
	}
	w.Prompted(t, "alone", "sing again", 2) // the newest
	page := w.open("")
	titles := `[...document.querySelectorAll(".virtual li")].sort((a, b) => a.dataset.row - b.dataset.row)
		.map((e) => e.querySelector(".row")).map((e) => e.hash.slice(4) + "@" + e.dataset.depth)`
	shows := func(want string) {
		t.Helper()
		page.until("the list is "+want, titles+".join(' ') === "+quoted(want))
	}
	shows("alone@0 root@0 child@1 grandchild@2 sibling@1")
	page.click(".twig", "▾")
	shows("alone@0 root@0")
	page.shows(".twig", "▸ 3")
	state := eval[string](page, `import("/families.js").then(({ families }) => {
		const list = [{ session: "a", status: "idle" }, { session: "b", status: "idle", parent: { session: "a", seq: 1 } },
			{ session: "c", status: "failed", parent: { session: "b", seq: 1 } }];
		return families(list, new Map(list.map((s) => [s.session, s])), new Set(["a", "b"])).map((r) => r.state).join(); })`)
	if state != "failed" {
		t.Errorf("what is folded away is %q", state)
	}
	// Times have as many digits as they need: half a second comes before 0.51 of one.
	order := eval[string](page, `import("/families.js").then(({ families }) => { const of = (session, created) =>
			({ session, created, status: "idle", parent: session === "a" ? undefined : { session: "a", seq: 1 } });
		const list = [of("c", "2026-11-01T00:00:00.51Z"), of("b", "2026-11-01T00:00:00.5Z"), of("a", "")];
		return families(list, new Map(list.map((s) => [s.session, s]))).map((r) => r.s.session).join(""); })`)
	if order != "abc" {
		t.Errorf("the family stands as %q", order)
	}
	eval[bool](page, `(document.querySelector("a[href='#/s/root']").focus(), true)`)
	page.do(chromedp.KeyEvent(kb.ArrowRight))
	shows("alone@0 root@0 child@1 grandchild@2 sibling@1")
	page.do(chromedp.Navigate(w.site + "/#/?parent=child"))
	page.shows(".row", "branch of child") // whose parent is not in the list
	shows("grandchild@0")
	page.do(chromedp.Navigate(w.site + "/#/?flat=1"))
	page.until("the list is flat", titles+".every((s) => s.endsWith('@0')) && "+titles+".length === 5")
}

// A user runs a session again from an event in the middle with another model, and sees both side by side, under a
// permanent link.
func TestRunAgainSideBySide(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("an answer"))})
	w.Prompted(t, "s1", "first", 1)
	log := w.Prompted(t, "s1", "count the apples", 2)
	page := w.open("#/s/s1/e/" + itoa(len(log)-1))
	page.shows(".facts", "event "+itoa(len(log)-1)+" of")
	eval[bool](page, `(document.querySelector("select[aria-label^='Run again']").dispatchEvent(new FocusEvent("focusin")),
		document.querySelector("select[aria-label^='Run again']").focus(), true)`)
	page.until("the models are there", "document.querySelectorAll('.time select option').length > 1")
	page.choose(".time select", "scripted/scripted")
	page.until("both are side by side", "/^#\\/s\\/s1\\/with\\/s-/.test(location.hash)")
	for _, side := range []string{":first-child", ":last-child"} {
		page.shows(".two > "+side+" .message.user", "count the apples")
		page.shows(".two > "+side+" .end", "done: 1 turn,")
	}
	other := strings.TrimPrefix(eval[string](page, "location.hash"), "#/s/s1/with/")
	page.shows(".pair table", other)
	page.until("both runs are in the table", `document.querySelectorAll(".pair tbody tr").length === 2 &&
		[...document.querySelectorAll(".pair tbody tr")].every((r) => /scripted[^]*done/.test(r.innerText))`)
	copied := system.DataOf[*schemas.SessionBranched](w.LogOf(t, other))
	if len(copied) != 1 || len(copied[0].Messages) != 2 {
		t.Errorf("the copy has %+v, want the first prompt and its answer", copied)
	}
	page.do(chromedp.Reload())
	page.shows(".two > :last-child .entries", "Copy of session s1")
	page.do(chromedp.EmulateViewport(390, 844))
	page.until("nothing is wider than a phone", "document.documentElement.scrollWidth <= 390")
}
