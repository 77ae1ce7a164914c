//go:build unix

package console_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// countsFrames makes a page count the frames of its WebSocket.
const countsFrames = `window.frames_ = 0;
	window.WebSocket = class extends WebSocket {
		constructor(...o) { super(...o); this.addEventListener("message", () => frames_++); }
	};`

// A toolworker may publish updates of any session. Invalid ones neither end the stream that a page follows nor keep the
// page busy.
func TestUpdatesThatAreNone(t *testing.T) {
	suite.LongForm(t)
	w := newWorld(t, system.Options{Model: chunked(t, echo("harmless"), scripted.Text("done")),
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	page := newWindow(t)
	page.before(countsFrames)
	page.do(chromedp.Navigate(w.site + "/#/s/s1"))
	page.shows(".session", "No messages yet.")
	w.Prompt(t, "s1", "go")
	page.shows(".approval.asks", "policy asks")
	asked := system.DataOf[*schemas.ApprovalRequested](w.LogOf(t, "s1"))[0]
	for n, payload := range []string{
		`{"call":"%s","partialResult":{"content":"no list"}}`, `{"call":"%s","partialResult":{"content":[null]}}`,
		`{"call":"%s","partialResult":{"content":[{"type":"text","text":{"type":"script"}}]}}`,
		`{"call":"%s","partialResult":{"content":[{"type":"image","data":7,"mimeType":"image/png"}]}}`,
		`{"call":"%s","partialResult":"text"}`, `{"call":"%s","partialResult":null}`, `{"call":{},"partialResult":{}}`,
		`{"call":"%s","partialResult":{"content":[{"type":"text","text":"an update"}]}}`,
	} {
		if n < 6 || n == 7 {
			payload = fmt.Sprintf(payload, asked.Call)
		}
		before := eval[int](page, "frames_")
		err := w.Conn.NATS().PublishMsg(&nats.Msg{Subject: "agent.live.s1.update", Data: []byte(payload), Header: nats.Header{
			"ce-specversion": {"1.0"}, "ce-source": {"x"}, "ce-subject": {"s1"},
			"ce-id":   {fmt.Sprintf("s1/%d.%d", asked.Call.Seq(), n+1)},
			"ce-type": {"dev.loopbus.tool_execution_update.v1"},
			"ce-time": {time.Now().Add(time.Duration(n) * time.Second).UTC().Format(time.RFC3339Nano)}}})
		if err != nil {
			t.Fatal(err)
		}
		page.until("the update has come", fmt.Sprintf("frames_ > %d", before))
		eval[bool](page, "new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(() => r(true))))")
	}
	page.shows(".call .result", "an update")
	page.click(".call button", "Approve")
	page.shows(".end", "done")
}
