package grep_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"unicode/utf16"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/tools/grep"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// The files and what is shown of them; args without the pattern, which is x.
func TestSearch(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		args  string
		want  string
	}{
		{"in order of names and lines", map[string]string{"b": "x2\n", "a/c": "x0\nno\nx1", "c": "x3"}, ``,
			"a/c:1: x0\na/c:3: x1\nb:1: x2\nc:1: x3"},
		{"no final newline, empty lines", map[string]string{"a": "\n\nx\n\n"}, ``, "a:3: x"},
		{"the empty text after the last line is none", map[string]string{"a": "a\nb\n"}, `,"pattern":"^$"`,
			"No matches found"},
		{"an empty file has no lines", map[string]string{"a": ""}, `,"pattern":""`, "No matches found"},
		{"context that overlaps is repeated", map[string]string{"a": "1\nx2\nx3\n4\n5"}, `,"context":1`,
			"a-1- 1\na:2: x2\na-3- x3\na-2- x2\na:3: x3\na-4- 4"},
		{"context at the ends", map[string]string{"a": "x\n2\n3\n", "b": "1\nx"}, `,"context":2`,
			"a:1: x\na-2- 2\na-3- 3\nb-1- 1\nb:2: x"},
		{"context far apart", map[string]string{"a": "1\nx\n3\n4\n5\n6\n7\nx\n9\n"}, `,"context":1`,
			"a-1- 1\na:2: x\na-3- 3\na-7- 7\na:8: x\na-9- 9"},
		{"context after the limit", map[string]string{"a": "x\nx\n3\n"}, `,"context":1,"limit":1`,
			"a:1: x\na-2- x\n\n[1 matches limit reached. Use limit=2 for more, or refine pattern]"},
		{"context of a fraction or below nothing", map[string]string{"a": "1\nx\n3\n"}, `,"context":-3`, "a:2: x"},
		{"a limit over several files", map[string]string{"a": "x\n", "b": "x\nx\n", "c": "x\n"}, `,"limit":2`,
			"a:1: x\nb:1: x\n\n[2 matches limit reached. Use limit=4 for more, or refine pattern]"},
		{"binary", map[string]string{"a": "x\n\x00", "b": "x\n"}, ``, "b:1: x"},
		{"binary, after a while", map[string]string{"a": "x\n" + strings.Repeat("y\n", 40<<10) + "\x00x\nx\n", "b": "x\n"},
			``, "a:1: x\nb:1: x"},
		{"not UTF-8", map[string]string{"a": "caf\xe9 x\n"}, ``, "a:1: caf\uFFFD x"},
		{"UTF-16", map[string]string{"le": utf16File(binary.LittleEndian, "é x\nno\n"),
			"be": utf16File(binary.BigEndian, "no\nx😀\n")}, ``, "be:2: x😀\nle:1: é x"},
		{"byte order mark", map[string]string{"a": "\uFEFFx\ny"}, `,"context":1,"pattern":"y"`, "a-1- x\na:2: y"},
		{"exactly 500 characters", map[string]string{"a": "x" + strings.Repeat("é", 499)}, ``,
			"a:1: x" + strings.Repeat("é", 499)},
		{"surrogates count twice", map[string]string{"a": "x" + strings.Repeat("😀", 250)}, ``,
			"a:1: x" + strings.Repeat("😀", 249) + "... [truncated]\n\n[Some lines truncated to 500 chars. Use read tool to " +
				"see full lines]"},
		{"long lines that are not shown are not told of", map[string]string{"a": strings.Repeat("y", 600) + "\n2\n3\nx"},
			`,"context":1`, "a-3- 3\na:4: x"},
		{"several notices", map[string]string{"a": strings.Repeat("x", 600) + "\nx"}, `,"limit":1`,
			"a:1: " + strings.Repeat("x", 500) + "... [truncated]\n\n[1 matches limit reached. Use limit=2 for more, or " +
				"refine pattern. Some lines truncated to 500 chars. Use read tool to see full lines]"},
		{"ignored files", map[string]string{".gitignore": "*.log\nd/", "a.log": "x", "d/a": "x", "b": "x", ".ignore": "c",
			"c": "x"}, ``, "b:1: x"},
		{"a file that is named, though ignored", map[string]string{".gitignore": "*.log", "a.log": "x"}, `,"path":"a.log"`,
			"a.log:1: x"},
		{"a file that is named, whatever the glob", map[string]string{"a.log": "x"}, `,"path":"a.log","glob":"*.ts"`,
			"a.log:1: x"},
		{"a glob", map[string]string{"a.ts": "x", "b.js": "x", "d/c.ts": "x", "d/e.go": "x"}, `,"glob":"*.{ts,go}"`,
			"a.ts:1: x\nd/c.ts:1: x\nd/e.go:1: x"},
		{"a glob brings ignored files back", map[string]string{".gitignore": "*.log\nd/", "a.log": "x", "d/b.log": "x",
			"c": "x"}, `,"glob":"*.log"`, "a.log:1: x"},
		{"a glob of what is not wanted", map[string]string{".gitignore": "*.log", "a.log": "x", "b.ts": "x", "c": "x"},
			`,"glob":"!*.ts"`, "c:1: x"},
		{"a glob with a slash is relative to the working directory", map[string]string{"d/a/x.ts": "x", "a/x.ts": "x"},
			`,"path":"d","glob":"d/a/*.ts"`, "a/x.ts:1: x"},
		{"not to the place of the search", map[string]string{"d/a/x.ts": "x", "a/x.ts": "x"}, `,"path":"d","glob":"a/*.ts"`,
			"No matches found"},
		{"carriage returns", map[string]string{"a": "x\r\r\n"}, ``, "a:1: x"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := tooltest.New(t)
			for name, content := range c.files {
				rig.Put(name, content)
			}
			got, isError := rig.Text(grep.New(rig.Workspace), `{"pattern":"x"`+c.args+`}`)
			if d := cmp.Diff(c.want, got); d != "" || isError {
				t.Errorf("error %v (-want +got):\n%s", isError, d)
			}
		})
	}
}

func utf16File(order binary.AppendByteOrder, text string) string {
	b := order.AppendUint16(nil, 0xFEFF)
	for _, unit := range utf16.Encode([]rune(text)) {
		b = order.AppendUint16(b, unit)
	}
	return string(b)
}

func TestLinksAndPipes(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("d/a", "x")
	rig.Link("file", "d/a")
	rig.Link("dir", "d")
	rig.Link("out", "../outside")
	rig.Link("secret", "../outside/secret")
	if err := syscall.Mkfifo(rig.Path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(rig.Path("d/.gitignore"), 0o600); err != nil {
		t.Fatal(err)
	}
	tool := grep.New(rig.Workspace)
	denied := func(path string) string {
		return "Access denied: " + rig.Path(path) + " is outside " + rig.Root + ", and only files inside may be used"
	}
	for path, want := range map[string]string{
		"": "d/a:1: x", "dir": "a:1: x", "file": "file:1: x",
		"out": denied("out"), "out/secret": denied("out/secret"), "secret": denied("secret"),
		"fifo": "Not a regular file: " + rig.Path("fifo"), "none": "Path not found: " + rig.Path("none"),
		"d/a/b": "Path not found: " + rig.Path("d/a/b"),
	} {
		if got, _ := rig.Text(tool, map[string]string{"pattern": "x|secret", "path": path}); got != want {
			t.Errorf("%q: %q, want %q", path, got, want)
		}
	}
}

// Where much is found, what is shown is cut by bytes, and the details have the totals.
func TestManyMatches(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("a", strings.Repeat("x and some more text\n", 10_000))
	result, isError := rig.Run(grep.New(rig.Workspace), `{"pattern":"x","limit":20000}`)
	total := 0
	for n := 1; n <= 10_000; n++ {
		total += len(fmt.Sprintf("\na:%d: x and some more text", n))
	}
	got := result.Content.JoinText()
	if isError || !strings.HasSuffix(got, " more text\n\n[50.0KB limit reached]") || len(got) > 51_300 {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-80:])
	}
	if want := fmt.Sprintf(`"totalLines":10000,"totalBytes":%d,`, total-1); !strings.Contains(string(result.Details),
		want) || strings.Contains(string(result.Details), "matchLimitReached") {
		t.Errorf("details %.300s", result.Details[len(result.Details)-300:])
	}
}

func TestLongLine(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("a", "first x\n"+strings.Repeat("0123456789abcde ", 5<<20/16)+"x\nlast x\n")
	want := "a:1: first x\na:2: " + strings.Repeat("0123456789abcde ", 32)[:500] + "... [truncated]\na:3: last x\n\n" +
		"[Some lines truncated to 500 chars. Use read tool to see full lines]"
	if got, _ := rig.Text(grep.New(rig.Workspace), `{"pattern":"x"}`); got != want {
		t.Errorf("got %q", got)
	}
}

// The lines around a match are in memory, and are written again for the next one: there is a bound to them.
func TestContextIsBounded(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("a", strings.Repeat("y\n", 5000)+"x\n")
	got, _ := rig.Text(grep.New(rig.Workspace), `{"pattern":"x","context":5000}`)
	if first, _, _ := strings.Cut(got, "\n"); first != "a-3001- y" {
		t.Errorf("begins with %q", first)
	}
}
