//go:build unix

package console_test

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
)

// One malformed announcement, profile, or answer takes neither its part of the fleet view nor another entry with it.
func TestMalformedEntriesOfTheFleet(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	for key, value := range map[string]string{
		"agent_tools.nothing.w": `null`, "agent_tools.list.w": `[]`, "agent_tools.number.w": `7`,
		"agent_tools.since.w":      `{"name":"since","worker":"w","since":7}`,
		"agent_tools.effect.w":     `{"name":"effect","worker":"w","since":"2026-01-01T00:00:00Z","effect":{"type":"b"}}`,
		"agent_profiles.nothing":   `null`,
		"agent_profiles.tools":     `{"model":7,"tools":"all","budget":{"maxCost":"x"}}`,
		"agent_profiles.cost":      `{"budget":{"maxCost":"5","per":{"toString":7}}}`,
		"agent_profiles.described": `{"description":{"constructor":null,"type":"script"}}`,
		"agent_profiles.good":      `{"name":"another","description":"is as it should be"}`,
	} {
		if _, err := w.Conn.JetStream().Publish(t.Context(), "$KV."+key, []byte(value)); err != nil {
			t.Fatal(err)
		}
	}
	for _, subject := range []string{"$SRV.INFO.loopbus-runner", "agent.svc.runner.status"} {
		for _, answer := range []string{"null", "{", `{"metadata":{"prefix":"agent","id":{}}}`,
			`{"id":"r1","inFlight":"x"}`} {
			sub, err := w.Conn.NATS().Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(answer)) })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = sub.Unsubscribe() })
		}
	}
	page := w.open("#/fleet")
	page.shows("section[aria-label=Tools]", "echo")
	page.shows("section[aria-label=Runners] tbody", "r1")
	page.until("profiles are listed, and those that are none", `(() => {
		const rows = [...document.querySelectorAll("section[aria-label=Profiles] tbody tr")].map((r) =>
			r.firstChild.innerText + ": " + r.lastChild.innerText);
		return rows.join(", ") === "cost: cannot be read, described: cannot be read, good: is as it should be, " +
			"nothing: cannot be read, tools: cannot be read"; })()`)
	page.until("nothing else is listed", `["Tools", "Runners"].every((name) =>
		document.querySelectorAll("section[aria-label='" + name + "'] tbody tr").length === 1)`)
}

// What cannot be shown all the same is said so in its place, until it can be; what is beside it is shown.
func TestGuard(t *testing.T) {
	w := newWorld(t, system.Options{Model: chunked(t, scripted.Text("here I am"))})
	page := w.open("")
	page.shows("main", "There are no sessions yet.")
	if got := eval[string](page, `Promise.all(
		[import("/html.js"), import("/parts/guard.js"), import("/vendor/preact.js")]).then(
		async ([{ html }, { Guard }, { render }]) => {
			const Name = ({ of }) => html`+"`<i>${of.name.at(0)}</i>`"+`;
			const at = document.createElement("div");
			const draw = async (list) => {
				render(html`+"`${list.map((of) => html`<p><${Guard}><${Name} of=${of} /><//></p>`)}`"+`, at);
				await new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)));
				return [...at.children].map((p) => p.innerText.replace(/: .*/, "")).join(", ");
			};
			return [await draw([{ name: "a" }, {}, { name: "c" }]), await draw([{ name: "d" }, { name: "e" }, null]),
				await draw([{ name: "f" }, { name: "g" }, { name: "h" }])].join("; ");
		})`); got != "a, This cannot be shown, c; d, e, This cannot be shown; f, g, h" {
		t.Errorf("shown is %s", got)
	}
}
