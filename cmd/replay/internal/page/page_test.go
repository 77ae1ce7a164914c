package page_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/replay/internal/page"
	"github.com/loopbus/loopbus/sessionfile"
)

// hostile is what somebody may write who wants to be taken for markup, in HTML and in Markdown.
const hostile = "</pre></summary></style><script>alert(1)</script><img src=x onerror=alert(2)>\"'>" +
	"<svg/onload=alert(3)> {{.}} [a](javascript:alert(4)) `````\n```\n# heading\n<!-- \u202e \x00 " +
	"javascript:alert(5) \x1b]0;title\a \u009b2J"

// session has the hostile text everywhere that somebody can put one.
func session(t *testing.T) *sessionfile.Session {
	t.Helper()
	quoted, err := json.Marshal(hostile)
	if err != nil {
		t.Fatal(err)
	}
	var lines []*sessionfile.Entry
	for _, text := range []string{
		`{"type":"session","version":3,"id":H,"timestamp":H,"cwd":H,"parentSession":H}`,
		`{"type":"message","id":H,"parentId":null,"timestamp":H,"message":{"role":"user","content":H}}`,
		`{"type":"message","id":"b","parentId":H,"timestamp":"2026-01-02T03:04:05.000Z","message":{"role":"assistant",` +
			`"provider":H,"model":H,"stopReason":"error","errorMessage":H,"content":[{"type":"text","text":H},` +
			`{"type":"thinking","thinking":H},{"type":"toolCall","id":"c","name":H,"arguments":{H:H}}]}}`,
		`{"type":"message","id":"c","parentId":"b","message":{"role":"toolResult","toolCallId":"c","toolName":H,` +
			`"isError":true,"content":[{"type":"text","text":H},{"type":"image","mimeType":"image/svg+xml",` +
			`"data":"PCEtLT4="},{"type":"image","mimeType":H,"data":H},` +
			`{"type":"image","mimeType":"image/png","data":"AAAA"}]}}`,
		`{"type":"message","id":"c2","parentId":"c","message":{"role":"bashExecution","command":H,"output":H}}`,
		`{"type":"message","id":"c3","parentId":"c2","message":{"role":H,"content":5}}`,
		`{"type":"label","id":"d","parentId":"c3","targetId":"b","label":H}`,
		`{"type":"session_info","id":"e","parentId":"d","name":H}`,
		`{"type":"custom","id":"f","parentId":"e","customType":H,"data":H}`,
		`{"type":"custom_message","id":"g","parentId":"f","customType":H,"content":H,"display":true}`,
		`{"type":"compaction","id":"i","parentId":"g","summary":H,"firstKeptEntryId":"b","tokensBefore":5}`,
		`{"type":"branch_summary","id":"j","parentId":"b","summary":H,"fromId":"b"}`,
		`{"type":H,"id":"k","parentId":"i"}`,
	} {
		e, err := sessionfile.NewEntry([]byte(strings.ReplaceAll(text, "H", string(quoted))))
		if err != nil {
			t.Fatal(err, text)
		}
		lines = append(lines, e)
	}
	return sessionfile.FromEntries(lines)
}

// tags are the elements that the page is made of, with the attributes that each may have.
var tags = map[string]string{
	"html": "lang", "head": "", "meta": "charset http-equiv content name", "title": "", "style": "", "body": "",
	"header": "", "h1": "", "small": "", "main": "", "article": "class id", "b": "", "bdi": "", "span": "class",
	"div": "class", "pre": "", "details": "", "summary": "class", "a": "href", "img": "src alt",
}

// TestAPageIsSafe holds that the page has no element, attribute or address but its own, and that all that was written
// is in it as text.
func TestAPageIsSafe(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := page.HTML(&b, session(t)); err != nil {
		t.Fatal(err)
	}
	doc, err := html.Parse(strings.NewReader(b.String()))
	if err != nil {
		t.Fatal(err)
	}
	var texts strings.Builder
	for n := range doc.Descendants() {
		if n.Type == html.TextNode {
			texts.WriteString(n.Data)
		}
		if n.Type == html.CommentNode {
			t.Errorf("comment %q", n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		may, known := tags[n.Data]
		if !known {
			t.Errorf("element %s", n.Data)
		}
		for _, a := range n.Attr {
			if !strings.Contains(" "+may+" ", " "+a.Key+" ") {
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			}
			own := map[string]string{"href": "#e-", "src": "data:image/png;base64,"}[a.Key]
			if !strings.HasPrefix(a.Val, own) {
				t.Errorf("%s leads to %q", n.Data, a.Val)
			}
		}
	}
	if !strings.Contains(b.String(), `Content-Security-Policy" content="default-src 'none';`) {
		t.Error("the page has no content security policy")
	}
	want := strings.ReplaceAll(hostile, "\x00", "\uFFFD")
	if n := strings.Count(texts.String(), want); n < 20 {
		t.Errorf("what was written stands there %d times", n)
	}
}

// TestATranscriptIsSafe holds that in Markdown nothing that was written is a heading, a link or an element: it stands
// in fences, or with its marks escaped.
func TestATranscriptIsSafe(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	if err := page.Markdown(&b, session(t)); err != nil {
		t.Fatal(err)
	}
	if i := strings.IndexFunc(b.String(), cli.Unsafe); i >= 0 {
		t.Errorf("a terminal would obey %q", b.String()[i:min(i+20, b.Len())])
	}
	fence := ""
	backticks := regexp.MustCompile("^`{3,}$")
	unescaped := regexp.MustCompile("(^|[^\\\\])[<>\\[`]|^# h")
	for n, line := range strings.Split(b.String(), "\n") {
		switch {
		case fence != "":
			if line == fence {
				fence = ""
			}
		case backticks.MatchString(line):
			fence = line
		case unescaped.MatchString(line):
			t.Errorf("line %d: %q", n+1, line)
		}
	}
	if fence != "" {
		t.Errorf("the fence %s is not closed", fence)
	}
}

// Many branches on a long way cost what they are, and not the way once for each: the file may be somebody else's.
func TestBranchesAreWalkedOnce(t *testing.T) {
	cost := func(n int) uint64 {
		lines := []string{`{"type":"session","version":3,"id":"s"}`}
		for i := range n {
			lines = append(lines, fmt.Sprintf(`{"type":"custom","id":"a%d","parentId":"a%d"}`, i, i-1))
		}
		for i := range n {
			lines = append(lines, fmt.Sprintf(`{"type":"custom","id":"b%d","parentId":"a%d"}`, i, n-1))
		}
		entries, problems := sessionfile.Parse([]byte(strings.Join(lines, "\n")))
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		s := sessionfile.FromEntries(entries)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		var b strings.Builder
		if err := page.Markdown(&b, s); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if got := strings.Count(b.String(), fmt.Sprintf("\nbelow a%d\n", n-1)); got != n-1 {
			t.Fatalf("%d branches, want %d", got, n-1)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	cost(10)
	if small, large := cost(500), cost(2000); large > 8*small {
		t.Errorf("%d bytes for 500 branches, %d for 2000", small, large)
	}
}

// What would become many times what a hostile model has said is not indented: that are many values in a few levels, or
// many levels.
func TestArgumentsThatWouldGrowAreShownAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, levels := range []int{10, 63, 5000} {
		deep := strings.Repeat("[", levels) + strings.Repeat("1,", 5000) + "1" + strings.Repeat("]", levels)
		if s := htmlOf(t, `{"a":`+deep+`}`); !strings.Contains(s, deep) || len(s) > 2*len(deep)+10_000 {
			t.Errorf("%d bytes of arguments make a page of %d", len(deep), len(s))
		}
	}
	const small = "{\n  \"a\": {\n    \"b\": [\n      1\n    ]\n  }\n}"
	if s := htmlOf(t, `{"a":{"b":[1]}}`); !strings.Contains(html.UnescapeString(s), small) {
		t.Errorf("arguments are not indented: %s", s)
	}
}

// htmlOf returns the page of a session with one call.
func htmlOf(t *testing.T, args string) string {
	t.Helper()
	var lines []*sessionfile.Entry
	for _, text := range []string{
		`{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/"}`,
		`{"type":"message","id":"a","parentId":null,"message":{"role":"assistant","content":[` +
			`{"type":"toolCall","id":"c","name":"bash","arguments":` + args + `}]}}`,
	} {
		e, err := sessionfile.NewEntry([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, e)
	}
	var b strings.Builder
	if err := page.HTML(&b, sessionfile.FromEntries(lines)); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
