//go:build unix

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// A user sees and approves the numbers of a call as the model wrote them, also those that JavaScript cannot keep, and
// changes only those that are edited. Results and events show numbers as they are, too.
func TestNumbersAreShownAndExecutedAsWritten(t *testing.T) {
	suite.LongForm(t)
	const args = `{"id":12345678901234567890,"keep":1,"f":0.1000000000000000055511151231257827,"zero":-0,"one":1.0,` +
		`"e":1E2,"list":[1e-07,7]}`
	numbers := []string{`"id": 12345678901234567890,`, `"f": 0.1000000000000000055511151231257827,`, `"zero": -0,`,
		`"one": 1.0,`, `"e": 1E2,`, "1e-07,"}
	executed := make(chan string, 1)
	pay := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "pay", Parameters: json.RawMessage(`{"type":"object"}`)},
		Execute: func(_ context.Context, c tools.Call) (schemas.ToolResult, error) {
			executed <- string(c.Arguments)
			return schemas.TextResult(`{"receipt":98765432109876543210}`), nil
		}}
	call := scripted.Calls("", schemas.ToolCall{Name: "pay", Arguments: json.RawMessage(args)})
	w := newWorld(t, system.Options{Model: chunked(t, call, scripted.Text("done")), Tools: []tools.Tool{pay},
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	page, list := w.open("#/s/s1"), w.open("#/approvals")
	list.shows("main", "Nothing waits for approval.")
	w.Prompt(t, "s1", "go")
	page.shows(".approval.asks", "policy asks")
	list.shows(".card", "pay")
	late := w.open("#/approvals") // which reads the index, and not the event
	late.shows(".card", "pay")
	late.click(".card button", "Change the arguments")
	late.until("the arguments can be written", "document.querySelector('.card textarea')")
	for where, text := range map[string]string{"session": page.shownWhole(".call"), "approvals": list.shownWhole(".card"),
		"index": late.shownWhole(".card"), "editor": eval[string](late, "document.querySelector('.card textarea').value")} {
		for _, want := range numbers {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %s in\n%s", where, want, text)
			}
		}
	}
	ran := func(want string) {
		t.Helper()
		select {
		case got := <-executed:
			if got != want {
				t.Errorf("executed\n%s, want\n%s", got, want)
			}
		case <-bustest.Deadline(t).Done():
			t.Fatal("the call was not executed")
		}
	}
	late.click(".card button", "Approve as changed") // nothing is
	ran(args)
	page.shows(".call .result", `"receipt": 98765432109876543210`)
	page.lacks(".approval", "with other arguments")
	asked := w.Until(t, "s1", "the request",
		func(e schemas.Event) bool { return e.Type() == schemas.EventApprovalRequested })
	page.do(chromedp.Navigate(fmt.Sprintf("%s/#/s/s1/e/%d", w.site, asked[len(asked)-1].Seq)))
	page.shows(".raw", numbers[0])

	list.shows("main", "Nothing waits for approval.")
	w.Prompt(t, "s2", "go")
	list.click(".card button", "Change the arguments")
	list.until("the arguments can be written", "document.querySelector('.card textarea')")
	eval[bool](list, `(() => { const e = document.querySelector(".card textarea");
		e.value = e.value.replace('"keep": 1', '"keep": 2'); e.dispatchEvent(new Event("input", { bubbles: true }));
		return true; })()`)
	list.click(".card button", "Approve as changed")
	ran(strings.Replace(args, `"keep":1`, `"keep":2`, 1))
}

// What the model reads of a result is shown, whatever the tool adds for people, and whatever a name says twice.
func TestAllThatAModelReadsIsShown(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	page := w.open("")
	page.shows("main", "There are no sessions yet.")
	got := eval[string](page, `Promise.all(
		[import("/html.js"), import("/parts/text.js"), import("/vendor/preact.js")]).then(
		async ([{ html }, { Content }, { render }]) => {
			const at = document.createElement("div");
			document.body.append(at);
			const shown = async (text, details) => {
				render(html`+"`<${Content} content=${[{ type: \"text\", text }]} details=${details} />`"+`, at);
				await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
				return at.innerText.split("\n").map((line) => line.trim()).filter(Boolean).join("|");
			};
			return [await shown("read this", { diff: "-old\n+new" }),
				await shown('{"note":"read this","note":"all is well"}'),
				await shown('{"note": "all is  well", "n": 1.50}'), await shown('{"a":"x\\"  ","b":[]}')].join(", ");
		})`)
	const want = `read this|-old|+new, {"note":"read this","note":"all is well"}, ` +
		`{|"note": "all is  well",|"n": 1.50|}, {|"a": "x\"  ",|"b": []|}`
	if got != want {
		t.Errorf("shown: %s\nwant:  %s", got, want)
	}
}
