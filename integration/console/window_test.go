//go:build unix

package console_test

import (
	"context"
	"encoding/json"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/loopbus/loopbus/integration/internal/system"
)

// window is a window of the browser. An error in its page fails the test.
type window struct {
	t   *testing.T
	ctx context.Context

	mu     sync.Mutex
	faults []string
}

// newWindow opens a window with separate cookies and storage.
func newWindow(t *testing.T) *window {
	t.Helper()
	ctx, cancel := chromedp.NewContext(needsBrowser(t), chromedp.WithNewBrowserContext())
	w := &window{t: t, ctx: ctx}
	if err := chromedp.Do(ctx); err != nil { // it is opened
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(ev any) {
		w.mu.Lock()
		defer w.mu.Unlock()
		switch ev := ev.(type) {
		case *runtime.EventExceptionThrown:
			w.faults = append(w.faults, (&chromedp.ExceptionError{ExceptionDetails: ev.ExceptionDetails}).Error())
		case *log.EventEntryAdded:
			if ev.Entry.Level == log.EntryLevelError && !strings.Contains(ev.Entry.Text, "WebSocket") &&
				!strings.Contains(ev.Entry.Text, "net::ERR_CONNECTION") { // a server that is away
				w.faults = append(w.faults, ev.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	w.before(remembersNotices)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the page has:\n%.4000s", w.textOf("body"))
		}
		cancel()
		w.mu.Lock()
		defer w.mu.Unlock()
		for _, fault := range w.faults {
			t.Errorf("in the page: %s", fault)
		}
	})
	return w
}

// before has a script run in every page before its own.
func (w *window) before(script string) {
	w.t.Helper()
	_, err := chromedp.Call(w.ctx, page.AddScriptToEvaluateOnNewDocument,
		page.AddScriptToEvaluateOnNewDocumentParams{Source: script})
	if err != nil {
		w.t.Fatal(err)
	}
}

// remembersNotices keeps every notice that a page has shown, since a notice goes away after seconds.
const remembersNotices = `window.told_ = new Set();
	new MutationObserver(() => { for (const e of document.querySelectorAll(".notices p")) told_.add(e.innerText); })
		.observe(document, { childList: true, subtree: true, characterData: true });`

// told waits until the page has told a person something in a notice, which may be gone by now.
func (w *window) told(text string) {
	w.t.Helper()
	w.until("a notice says "+text, "[...told_].some((s) => s.includes("+quoted(text)+"))")
}

func (w *window) do(steps ...chromedp.Action[chromedp.Void]) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, system.Deadline)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.t.Fatal(err)
	}
}

func eval[T any](w *window, expression string) T {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, system.Deadline)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		w.t.Fatalf("%s: %v", expression, err)
	}
	return v
}

// textOf returns the visible text of an element; "" if it does not exist.
func (w *window) textOf(selector string) string {
	w.t.Helper()
	return eval[string](w, "document.querySelector("+quoted(selector)+")?.innerText ?? ''")
}

// until waits for something that JavaScript says. The page looks by itself, for half a second at a time: asking it each
// time costs more than what it has to do.
func (w *window) until(what, expression string) {
	w.t.Helper()
	look := `(async () => {
		for (const end = Date.now() + 500; Date.now() < end; await new Promise((next) => setTimeout(next, 20))) {
			if (` + expression + `) return true;
		}
		return false;
	})()`
	system.Eventually(w.t, what, func() bool { return eval[bool](w, look) })
}

// shows waits for a text in an element.
func (w *window) shows(selector, text string) {
	w.t.Helper()
	w.until(selector+" shows "+text, has(selector, text))
}

// lacks waits until no element has the text.
func (w *window) lacks(selector, text string) {
	w.t.Helper()
	w.until(selector+" lacks "+text, "!"+has(selector, text))
}

// has says in JavaScript whether an element has a text.
func has(selector, text string) string {
	return "[...document.querySelectorAll(" + quoted(selector) + ")].some((e) => e.innerText.includes(" +
		quoted(text) + "))"
}

// click clicks the first element of a selector that has a text.
func (w *window) click(selector, text string) {
	w.t.Helper()
	w.shows(selector, text)
	eval[bool](w, "([...document.querySelectorAll("+quoted(selector)+")].find((e) => e.innerText.includes("+quoted(text)+
		")).click(), true)")
}

// choose chooses from a list.
func (w *window) choose(selector, value string) {
	w.t.Helper()
	w.until(selector+" is there", "document.querySelector("+quoted(selector)+")")
	eval[bool](w, "(() => { const e = document.querySelector("+quoted(selector)+"); e.value = "+quoted(value)+
		"; e.dispatchEvent(new Event('change', { bubbles: true })); return true; })()")
}

// types types into an element, as a person does.
func (w *window) types(selector, text string) {
	w.t.Helper()
	text, entered := strings.CutSuffix(text, enter)
	w.do(chromedp.SendKeys(selector, text))
	if entered {
		w.enters()
	}
}

// enters presses the key Enter where the focus is. The browser decides whether that writes something, which depends on
// what the page makes of it; a key of chromedp's writes it in any case.
func (w *window) enters() {
	w.t.Helper()
	for _, kind := range []input.DispatchKeyEventType{input.DispatchKeyEventTypeKeyDown, input.DispatchKeyEventTypeKeyUp} {
		_, err := chromedp.Call(w.ctx, input.DispatchKeyEvent, input.DispatchKeyEventParams{Type: kind, Key: "Enter",
			Code: "Enter", Text: map[bool]string{true: enter}[kind == input.DispatchKeyEventTypeKeyDown],
			WindowsVirtualKeyCode: 13})
		if err != nil {
			w.t.Fatal(err)
		}
	}
}

const enter = kb.Enter

func quoted(text string) string {
	raw, err := json.Marshal(text)
	if err != nil {
		panic(err) // a text always encodes
	}
	return string(raw)
}
