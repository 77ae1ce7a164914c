//go:build unix

package console_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/console"
)

// modules opens a window in which the console's modules can be imported, without the console.
func modules(t *testing.T) *window {
	t.Helper()
	t.Parallel()
	needsBrowser(t)
	site := httptest.NewServer(http.FileServerFS(console.Files()))
	t.Cleanup(site.Close)
	win := newWindow(t)
	win.do(chromedp.Navigate(site.URL + "/format.js"))
	return win
}

// JSON is indented unless that makes it longer than four times itself and 4 KiB, as in the command line. Somewhat below
// that it may be left as it is.
func TestJSONIsIndentedUnlessItGrowsTooMuch(t *testing.T) {
	suite.LongForm(t)
	for _, wrong := range eval[[]string](modules(t), `import("/format.js").then(({ json }) => {
		const nested = (levels, v) => { for (let n = 0; n < levels; n++) v = [v]; return v; };
		const ones = (n) => Array(n).fill(1);
		const values = [5, null, true, [], {}, [[], {}, "[{,:}]"], { a: { b: [1, { c: '"[,\\' }] }, d: {} },
			nested(62, ones(100_000)), nested(300, "x".repeat(100_000)), nested(900, 1), ones(200_000)];
		for (let n = 0; n < 90; n++) {
			values.push(nested(n, []), nested(n, ["[,".repeat(n * n)]), nested(8, ones(15 * n)));
			let v = {};
			for (let level = 0; level < n; level++) v = { a: 1, b: v };
			values.push(v);
		}
		return values.filter((v) => {
			const [compact, wide, got] = [JSON.stringify(v), JSON.stringify(v, null, 2), json(v)];
			return got !== wide && (got !== compact || wide.length < 3 * compact.length + 3072) ||
				got.length > 4 * compact.length + 4096;
		}).map((v) => JSON.stringify(v).slice(0, 200));
	})`) {
		t.Errorf("not shown as it should be: %s", wrong)
	}
}

// What is no JSON value, and JSON that a browser can hardly nest, is shown somehow.
func TestOddValuesAreShown(t *testing.T) {
	suite.LongForm(t)
	got := eval[[]any](modules(t), `import("/format.js").then(({ json }) => {
		let v = "x".repeat(8 << 20);
		for (let n = 0; n < 3000; n++) v = [v];
		return [json("[1]"), json(undefined) ?? "undefined", json(v).length > 8 << 20];
	})`)
	if want := []any{"[1]", "undefined", true}; !slices.Equal(got, want) {
		t.Errorf("shown are %v, want %v", got, want)
	}
}

// A message of a kind that the console does not know is shown as JSON, with the same limit.
func TestAnUnknownMessageIsIndentedUnlessItGrowsTooMuch(t *testing.T) {
	suite.LongForm(t)
	got := eval[[]string](modules(t), `import("/fold.js").then(({ Fold }) => [["a"], Array(100_000).fill([[[[[[1]]]]]])]
		.map((list) => ({ messageId: "m", message: { role: "note", list } }))
		.map((data) => new Fold().apply({ event: { type: "message_end", seq: 1, data } }))
		.map((fold) => fold.entries[0].blocks[0].text.slice(0, 50)))`)
	if len(got) != 2 || got[0] != "{\n  \"role\": \"note\",\n  \"list\": [\n    \"a\"\n  ]\n}" ||
		got[1] != `{"role":"note","list":[[[[[[[1]]]]]],[[[[[[1]]]]]]` {
		t.Errorf("shown is %q", got)
	}
}
