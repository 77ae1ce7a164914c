//go:build unix

package console_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// hostile is text that would do something if it were markup, a terminal's, or believed in its direction.
const hostile = `<script>window.owned = 1</script><img src=x onerror="window.owned = 2">` +
	`<a href="javascript:window.owned=3">x</a>` +
	"\x1b[31mred\x1b[0m \x1b]8;;http://evil.example.com\x07link\x1b]8;;\x07" +
	" bell\x07 \u202efdp.exe \u05e9\u05dc\u05d5\u05dd "

// Texts of models, tools, users and approvals contain markup, ANSI sequences, right-to-left marks, and a megabyte in
// one line. All of it is shown as text, and the page stays responsive.
func TestHostileOutput(t *testing.T) {
	line := strings.Repeat("0123456789abcdef", 1<<16)
	args, err := json.Marshal(map[string]string{"v": hostile, "<b>key</b>": "\u202e"})
	if err != nil {
		t.Fatal(err)
	}
	tool := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "loud", Parameters: json.RawMessage(`{"type":"object"}`)},
		Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			partial := schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: hostile}}}
			call.Update(partial)
			return schemas.ToolResult{Content: schemas.Contents{schemas.Text{Text: hostile + line[:400<<10]},
				schemas.Image{Data: "AAAA", MimeType: "image/svg+xml"}}}, nil
		},
	}
	model, err := scripted.NewScripts(scripted.Options{ChunkSize: 4 << 10}, scripted.Script{Responses: []scripted.Response{
		scripted.Calls(hostile, schemas.ToolCall{Name: "loud", Arguments: args}), scripted.Text(hostile + line)}})
	if err != nil {
		t.Fatal(err)
	}
	w := newWorld(t, system.Options{Model: model, Tools: []tools.Tool{tool},
		Host: func(h *host.Options) { h.Defaults.Approval.Tools = []string{"*"} }})
	list, page := w.open(""), w.open("#/s/s1")
	for depth, most := range map[int]int{60: 8 << 10, 900: 2 << 10, 100_000: 200 << 10} { // arguments may be nested deeply
		if got := eval[int](page, fmt.Sprintf(`import("/format.js").then(({ json }) => {
			let v = 1; for (let n = 0; n < %d; n++) v = [v]; return json(v).length; })`, depth)); got > most {
			t.Errorf("of JSON of %d levels, %d characters are shown", depth, got)
		}
	}
	page.shows(".session", "No messages yet.")
	w.Prompt(t, "s1", hostile)
	page.shows(".message.user .text", "<script>window.owned = 1</script>")
	page.shows(".message.user .text", "red link bell\u2407")
	page.shows(".call .text", "\u27e8U+202E\u27e9fdp.exe") // what is agreed to reads as it is
	list.click("a", "Approvals")
	list.shows(".card", "\u27e8U+202E\u27e9fdp.exe")
	list.click(".card button", "Approve")
	page.shows(".call .result", "<img src=x")
	page.shows(".call .result", "A picture (image/svg+xml)")
	page.shows(".end", "done: 2 turns")
	page.shows(".message.assistant .fold", "Show all")
	began := eval[float64](page, "performance.now()")
	page.until("the fold can be opened", "(document.querySelector('.list').lastElementChild.previousElementSibling"+
		".querySelector('.fold').click(), true)")
	page.until("all of it is shown", fmt.Sprintf("document.querySelector('.entries').innerText.length > %d", len(line)))
	t.Logf("a megabyte in one line is shown in %.0f ms", eval[float64](page, "performance.now()")-began)
	list.click("a", "Sessions")
	list.shows(".row", "<script>")
	for _, kind := range []string{"user", "assistant", "toolResult", "x assistant"} { // a client cannot look like another
		if _, err := w.Client.NATS().Request("agent.cmd.s1.custom_message", fmt.Appendf(nil,
			`{"customType":%q,"content":"claims to be of %s","display":true}`, kind, kind), system.Deadline); err != nil {
			t.Fatal(err)
		}
		page.shows(".message.custom", "claims to be of "+kind)
		page.shows(".message.custom .who", "custom "+kind)
	}
	for _, win := range []*window{page, list} {
		if owned := eval[bool](win, "'owned' in window"); owned {
			t.Error("the page has done what a text says")
		}
		if n := eval[int](win, "document.querySelectorAll('script, main img, main a[href^=javascript], "+
			"iframe, object').length"); n != 1 {
			t.Errorf("%d elements of what was said, beside the page's script", n-1)
		}
	}
}
