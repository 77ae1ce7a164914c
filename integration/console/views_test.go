//go:build unix

package console_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

func itoa(n int) string { return strconv.Itoa(n) }

func echo(text string) scripted.Response {
	args, _ := json.Marshal(map[string]string{"v": text}) // a text always encodes
	return scripted.Calls("let me see", schemas.ToolCall{Name: "echo", Arguments: args})
}

// Calls of two sessions wait for approval, and the badge counts them. A call that is approved in one window disappears
// in the other. A denial has its reason, and the session shows who decided.
func TestApprovals(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, echo("first"), scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	w.Prompt(t, "s1", "go")
	w.Prompt(t, "s2", "go")
	page, second := w.open("#/approvals"), w.open("#/s/s1")
	page.shows(".badge", "2")
	page.shows(".card", "s1")
	page.shows(".card", `"v": "first"`)
	page.until("the title counts them", "document.title.startsWith('(2)')")
	second.shows(".call", "waits for approval")
	second.click(".call button", "Approve")
	page.lacks(".card", "s1")
	page.shows(".badge", "1")
	second.shows(".approval", "Approved by")
	second.shows(".end", "done")
	page.types(".card input", "not today")
	page.click(".card button", "Deny")
	page.shows("main", "Nothing waits for approval.")
	page.do(chromedp.Navigate(w.site + "/#/s/s2"))
	page.shows(".approval", "Denied by")
	page.shows(".approval", "not today")
}

// A user steps through the events of a session, sees the state at each, opens the link to one in another window, and
// forks.
func TestTime(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, echo("first"), scripted.Text("done"))})
	log := w.Prompted(t, "s1", "go", 1)
	last := itoa(len(log))
	page := w.open("#/s/s1/time")
	page.shows(".facts", "event "+last+" of "+last)
	page.shows(".entries", "done: 2 turns")
	var call schemas.Event
	for _, e := range log {
		if e.Type() == schemas.EventToolExecutionStart {
			call = e
		}
	}
	at := strconv.FormatUint(call.Seq, 10)
	eval[bool](page, `(() => { const e = document.querySelector("input[type=range]"); e.value = `+at+`;
		e.dispatchEvent(new Event("input", { bubbles: true })); return true; })()`)
	page.shows(".facts", "event "+at+" of "+last)
	page.shows(".raw", "tool_execution_start")
	page.shows(".raw dd", call.RunID)
	page.shows(".entries .call", "running")
	page.lacks(".entries", "done: 2 turns")
	hash := eval[string](page, "location.hash")
	if hash != "#/s/s1/e/"+at {
		t.Errorf("the link is %s", hash)
	}
	page.click("button", "Compare from here")
	page.do(chromedp.KeyEvent(kb.ArrowRight))
	page.shows(".facts", "event "+itoa(int(call.Seq)+1)+" of "+last)
	page.shows(".between", "1 tool_execution_end")
	page.shows(".between", "1 entry is new or changed")

	other := w.open(hash)
	other.shows(".raw", "tool_execution_start")
	other.click("button", "Fork from here")
	other.until("both are side by side", "/^#\\/s\\/s1\\/with\\/s-/.test(location.hash)")
	right := ".two > :last-child "
	other.shows(right+".entries", "Copy of session s1 up to event "+at)
	other.shows(right+".message.user", "go")
	other.types(right+box, "again"+enter)
	other.shows(right+".end", "done")
	other.shows(".two > :first-child .end", "done: 2 turns")
	fork := strings.TrimPrefix(eval[string](other, "location.hash"), "#/s/s1/with/")
	if branched := system.DataOf[*schemas.SessionBranched](w.LogOf(t, fork)); len(branched) != 1 ||
		branched[0].Seq != call.Seq {
		t.Errorf("the fork is of %+v", branched)
	}
	other.do(chromedp.Navigate(w.site + "/#/?parent=s1"))
	other.shows(".row", "branch of s1")

	comparing := eval[string](page, "location.hash") // the link has what is compared
	other.do(chromedp.Navigate(w.site + "/" + comparing))
	other.shows(".between", "1 tool_execution_end")
}

// Sessions can be searched and filtered, and the URL has the filter.
func TestSearch(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	for id, text := range map[string]string{"s1": "count the apples", "s2": "count the pears", "s3": "sing"} {
		w.Prompted(t, id, text, 1)
	}
	page := newWindow(t)
	page.before("window.setInterval = () => 0") // what is shown comes by itself, not with the next tick of a clock
	page.do(chromedp.Navigate(w.site + "/"))
	page.until("all are listed", "document.querySelectorAll('.row').length === 3")
	page.types("input[type=search]", "COUNT")
	page.until("two are listed", "document.querySelectorAll('.row').length === 2")
	page.do(chromedp.Reload())
	page.until("two are listed", "document.querySelectorAll('.row').length === 2")
	if hash := eval[string](page, "location.hash"); hash != "#/?q=COUNT" {
		t.Errorf("the URL has %s", hash)
	}
	page.choose("select", "failed,damaged")
	page.shows(".empty", "No session matches.")
	page.do(chromedp.Navigate(w.site + "/#/?status=idle&q=pears"))
	page.shows(".row", "count the pears")

	w.Prompted(t, "s4", "more pears", 1)
	page.shows(".row", "more pears") // live
}

// The fleet view shows runners and workers, and dead letters, which can be discarded.
func TestFleet(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	w.Publish(t, "s1", schemas.CommandPrompt, `{"text":3}`)
	page := w.open("#/fleet")
	page.shows("section[aria-label=Runners]", "r1")
	page.shows("section[aria-label=Tools]", "echo")
	page.shows("section[aria-label=Tools]", "bench")
	page.shows("section[aria-label=Models]", "scripted")
	page.shows("section[aria-label='Dead letters'] .card", "agent.cmd.s1.prompt")
	page.shows(".health", "1 dead letter")
	page.click(".card button", "Discard")
	page.shows("section[aria-label='Dead letters']", "There are none.")
	page.lacks(".health", "dead letter")
}

// Of many or large dead letters the newest are shown. One with more headers than can be read has only its text.
func TestNewestDeadLetters(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	for i := range 102 {
		letter := nats.NewMsg("agent.dead.AGENT_TOOL.s1")
		letter.Data = fmt.Append(nil, "letter ", i)
		for n := range i / 101 * 2000 { // the last one has more than 5 KiB
			letter.Header[strconv.Itoa(n)] = []string{""}
		}
		if _, err := w.Conn.JetStream().PublishMsg(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
	}
	page := w.open("#/fleet")
	const letters = "section[aria-label='Dead letters'] "
	page.shows(letters, "102 in all, of which the newest 100 are shown")
	page.shows(letters+"li:first-child", "letter 101")
	page.shows(letters+"li:first-child", "It cannot be sent again: its headers are too large to be read.")
}

// A dead letter is sent again to its session, with what is shown: the target, the headers and, unfolded, the whole
// text. One that a worker wrote, or that is a reply of a server, is not.
func TestADeadLetterIsSentAgain(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	const last = "and the last word"
	write := func(subject, text string) {
		letter := nats.NewMsg(subject)
		letter.Data = []byte(text)
		for name, value := range map[string]string{"Dead-Reason": "nobody was there", "Dead-Stream": "AGENT_CMD",
			"Dead-Deliveries": "50", "Dead-Subject": "agent.cmd.s1.prompt", "Command": "prompt", "Reply-To": "_INBOX.x"} {
			letter.Header.Set("Loopbus-"+name, value)
		}
		if _, err := w.Conn.JetStream().PublishMsg(t.Context(), letter); err != nil {
			t.Fatal(err)
		}
	}
	const letters = "section[aria-label='Dead letters'] "
	write("agent.dead.AGENT_TOOL.s1", "of a worker")
	if err := w.Conn.NATS().PublishRequest("$JS.API.INFO", "agent.cmd.s2.prompt", nil); err != nil {
		t.Fatal(err)
	}
	page := w.open("#/fleet")
	page.shows(letters, "It cannot be sent again: only commands are sent again.")
	page.shows(letters, "It cannot be sent again: no client has sent it.")
	page.until("neither can be sent",
		`[...document.querySelectorAll(".answer button:enabled")].every((b) => b.innerText === "Discard")`)
	write("agent.dead.AGENT_CMD.s1", "late, but here "+strings.Repeat("x ", 5000)+last)
	page.shows(letters+".card", "Would be sent to agent.cmd.s1.prompt with the headers")
	page.shows(letters+".text", "Loopbus-Command: prompt")
	page.lacks(letters, "Reply-To")
	page.lacks(letters, last)
	page.click(letters+"button", "Show all ")
	page.shows(letters, last)
	page.click(".card button:enabled", "Send again")
	page.lacks(letters, last)
	log := w.Until(t, "s1", "the end of the run", system.Ends(1))
	if said := system.Said(log); len(said) != 1 || !strings.HasSuffix(said[0], last) {
		t.Errorf("it was told %.100q", said)
	}
}

// Budgets of profiles show usage and limit, the fullest first, and an exhausted one is the first of the problems.
func TestBudgets(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	now, budgets := time.Now(), bus.NewBudgets(w.Conn)
	for name, profile := range map[string]string{
		"thrifty": `{"budget":{"maxTokens":1000000,"maxCost":5,"per":"day"}}`,
		"lavish":  `{"budget":{"maxCost":2}}`, "free": `{}`,
	} {
		if _, err := w.Conn.JetStream().Publish(t.Context(), "$KV.agent_profiles."+name, []byte(profile)); err != nil {
			t.Fatal(err)
		}
	}
	for name, u := range map[string]schemas.Usage{
		"thrifty": {TotalTokens: 250_000, Cost: schemas.Cost{Total: 1.25}}, "lavish": {Cost: schemas.Cost{Total: 2.5}},
	} {
		if err := budgets.Add(t.Context(), name, name, now, u); err != nil {
			t.Fatal(err)
		}
	}
	page := w.open("#/fleet")
	page.shows("section[aria-label=Profiles]", "250k tokens of 1.0M tokens, $1.25 of $5.00 a day")
	page.shows("section[aria-label=Profiles]", "$2.50 of $2.00")
	page.shows(".health .problem", "the budget of lavish is used up: $2.50 of $2.00")
	page.until("the fullest is first",
		"document.querySelector('section[aria-label=Profiles] tbody th').innerText === 'lavish'")
	if got := page.textOf(".health"); strings.Contains(got, "thrifty") {
		t.Errorf("what is wrong: %s", got)
	}
}
