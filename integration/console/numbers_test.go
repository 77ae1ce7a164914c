//go:build unix

package console_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// using is a reply that fills so much of the model's window, and costs so much.
func using(r scripted.Response, tokens int64, dollars float64) scripted.Response {
	r.Message.Usage = schemas.Usage{Input: tokens - 10, Output: 10, TotalTokens: tokens,
		Cost: schemas.Cost{Total: dollars}}
	return r
}

// A session shows how much of the model's window its current context fills, which is not the sum over its replies, and
// its total cost. A run shows its own usage.
func TestContextAndCost(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, using(echo("first"), 30_000, 0.1),
		using(scripted.Text("done"), 50_000, 0.25), using(scripted.Text("and done"), 170_000, 1))})
	w.Prompted(t, "s1", "go", 1)
	page := w.open("#/s/s1")
	numbers := func(context, filled, cost string) {
		t.Helper()
		page.until("the context is "+context, "[...document.querySelectorAll('.facts > span')].some((e) => e.innerText === "+
			quoted("context "+context)+")")
		page.until("the meter has "+filled, "(() => { const e = document.querySelector('.facts meter'); return e?.value === "+
			filled+" && e.max === 200000 && e.getAttribute('aria-label') === 'Context used'; })()")
		page.until("the cost is "+cost,
			"[...document.querySelectorAll('.facts > span')].some((e) => e.innerText === "+quoted(cost)+")")
	}
	numbers("50k of 200k, 25 %", "50000", "$0.35")
	page.shows(".end", ", 80k tokens, $0.35")
	w.Prompted(t, "s1", "again", 2)
	numbers("170k of 200k, 85 %", "170000", "$1.35")
	page.shows(".end", ", 170k tokens, $1.00")
	page.do(chromedp.Reload())
	numbers("170k of 200k, 85 %", "170000", "$1.35")
	page.do(chromedp.Navigate(w.site + "/#/"))
	page.shows(".row .facts", "$1.35")
	page.shows(".row .facts", "3 turns")
}

// After some time, a call that no worker has started shows that it waits for one, until a worker starts it.
func TestACallWaitsForAWorker(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Calls("", schemas.ToolCall{Name: "dig"}),
		scripted.Text("done"))})
	dig, goOn := schemas.ToolDefinition{Name: "dig"}, make(chan struct{})
	bustest.Announce(t, w.Client, "late", dig)
	if err := w.Toolbox.Wait(t.Context(), "dig"); err != nil {
		t.Fatal(err)
	}
	page := w.open("#/s/s1")
	page.types(box, "go"+enter)
	page.until("the call has begun", "document.querySelector('.call header .tag')?.innerText === 'running'")
	page.until("it waits", `document.querySelector(".call header .tag").innerText === "waiting for a worker" &&
		document.querySelector(".call header .tag").title === "No worker has reported that it has begun the call"`)
	system.StartWorker(t, w.Client, "late", tools.Tool{ToolDefinition: dig,
		Execute: func(ctx context.Context, _ tools.Call) (schemas.ToolResult, error) {
			select {
			case <-goOn:
			case <-ctx.Done():
			}
			return schemas.TextResult("a hole"), nil
		}})
	page.until("it is at work", `document.querySelector(".call header .tag").innerText === "running" &&
		!document.querySelector(".call header .tag").title`)
	close(goOn)
	page.shows(".call .result", "a hole")
	page.until("it is done", "document.querySelector('.call header .tag').innerText === 'done'")
}
