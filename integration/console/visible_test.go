//go:build unix

package console_test

import (
	"context"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// asking is a service that requests approval of every call, for a reason.
type asking string

func (reason asking) Ask(context.Context, schemas.HookRef, schemas.HookRequest) (schemas.HookAnswer, error) {
	return schemas.HookAnswer{Ask: true, Reason: string(reason)}, nil
}

// Characters that change the direction of text, or that nobody sees, are shown by number wherever others name or
// explain something: what a person agrees to reads as it is. Arguments that are edited have them escaped.
func TestTextOfOthersReadsAsItIs(t *testing.T) {
	suite.LongForm(t)
	const turned, read = "\u202egpj.exe \u2066x\u200b", "\u27e8U+202E\u27e9gpj.exe \u27e8U+2066\u27e9x\u27e8U+200B\u27e9"
	w := newWorld(t, system.Options{Model: chunked(t, echo(turned), scripted.Text("done")),
		Host: func(h *host.Options) {
			h.Services = asking("not on the list: " + turned)
			h.Defaults.Hooks = []schemas.HookRef{{Hook: schemas.HookBeforeToolCall, Service: "policy", TimeoutMs: 60_000}}
		}})
	for _, m := range []*nats.Msg{
		{Subject: "$KV.agent_profiles.p", Data: []byte(`{"description":"` + turned + `","tools":["` + turned + `"]}`)},
		{Subject: "agent.dead.AGENT_CMD.agent_inbox", Data: []byte(turned),
			Header: nats.Header{"Loopbus-Dead-Reason": {turned}, "Loopbus-Dead-Stream": {"AGENT_CMD"}}},
	} {
		if _, err := w.Conn.JetStream().PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
	}
	page, list := w.open("#/s/s1"), w.open("#/approvals")
	w.Prompt(t, "s1", "title "+turned)
	for win, at := range map[*window]string{page: ".approval.asks", list: ".card"} {
		win.shows(at, "policy asks: not on the list: "+read)
		if got := win.shownWhole(at); strings.ContainsAny(got, "\u202e\u2066\u200b") {
			t.Errorf("shown is %+q", got)
		}
	}
	list.click(".card button", "Change the arguments")
	list.until("the arguments can be written", `document.querySelector(".card textarea")?.value.includes(
		'"\\u202egpj.exe \\u2066x\\u200b"')`)
	list.click(".card button", "Approve as changed") // nothing is
	page.shows(".approval", "Approved by")
	page.lacks(".approval", "with other arguments")
	page.shows(".end", "done")

	fleet := w.open("#/fleet")
	fleet.until("a profile and a dead letter read as they are", `["Profiles", "Dead letters"].every((name) => {
		const text = document.querySelector("section[aria-label='" + name + "']")?.innerText ?? "";
		return text.split(`+quoted(read)+`).length === 3 && !/[\u202e\u2066\u200b]/.test(text); })`)
	sessions := w.open("")
	sessions.shows(".row .title", "title "+read)
}
