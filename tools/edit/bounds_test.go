package edit

import (
	"context"
	"encoding/json"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools/internal/room"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

func call(t *testing.T, path string, pairs ...string) string {
	t.Helper()
	a := arguments{Path: path}
	for i := 0; i < len(pairs); i += 2 {
		a.Edits = append(a.Edits, replacement{pairs[i], pairs[i+1]})
	}
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// Whatever a file consists of, an edit takes a few times its size, and some memory for its work.
func TestMemoryIsAFewFiles(t *testing.T) { // not parallel: it measures what is allocated
	const size, work = 3 << 20, 256 << 20
	many := strings.Repeat("z\n", maxDistance+100)
	for name, c := range map[string]struct {
		content string
		pairs   []string
	}{
		"line breaks":      {"x" + strings.Repeat("\n", size) + "y", []string{"x", "z"}},
		"at both ends":     {"x" + strings.Repeat("\n", size) + "y", []string{"x", many, "y", "z"}},
		"carriage returns": {"x" + strings.Repeat("\r", size) + "y", []string{"x", "z"}},
		"not UTF-8":        {"x" + strings.Repeat("\xff", size) + "y", []string{"x", "z"}},
		"blanks":           {"x" + strings.Repeat(" \n", size/2) + "y", []string{"x", "z"}},
		"one long line":    {"x" + strings.Repeat("”", size/3) + "y", []string{"x", "z"}},
		"long plain forms": {"x" + strings.Repeat("\uFDFA", size/3) + "y", []string{"x", "z"}},
	} {
		t.Run(name, func(t *testing.T) {
			rig := tooltest.New(t)
			rig.Put("f", c.content)
			tool, args := New(rig.Workspace), call(t, "f", c.pairs...)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			text, isError := rig.Text(tool, args)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 10*size+work {
				t.Errorf("%d MiB for %d MiB", n>>20, size>>20)
			}
			if refused := name == "not UTF-8"; isError != refused || refused && text != "Could not edit file: f. It has "+
				"more than 1048576 lines that end in CR LF, or characters that are not UTF-8. Use another tool, such as sed." {
				t.Errorf("%v %.200s", isError, text)
			}
		})
	}
}

// A text with too many differences from plain text is compared as it is.
func TestExactOnly(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	rig.Put("f", strings.Repeat(" \n", maxFolds+1)+"“x” y\n")
	tool := New(rig.Workspace)
	if text, isError := rig.Text(tool, call(t, "f", "\"x\"", "z")); !isError ||
		!strings.HasPrefix(text, "Could not find the exact text in f.") {
		t.Errorf("folded: %v %s", isError, text)
	}
	if text, isError := rig.Text(tool, call(t, "f", " \n", "z")); !isError ||
		!strings.HasPrefix(text, "Found 262145 occurrences of the text in f.") {
		t.Errorf("not unique: %v %s", isError, text)
	}
	if text, isError := rig.Text(tool, call(t, "f", "“x”", "z")); isError || !strings.HasSuffix(rig.Get("f"), " \nz y\n") {
		t.Errorf("exact: %v %s", isError, text)
	}
}

func TestTooLarge(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	rig.Put("f", "x")
	if err := os.Truncate(rig.Path("f"), maxFile+1); err != nil {
		t.Fatal(err)
	}
	want := "Could not edit file: f. It is larger than 33554432 bytes. Use another tool, such as sed."
	if text, isError := rig.Text(New(rig.Workspace), call(t, "f", "x", "y")); !isError || text != want {
		t.Errorf("got %v %s", isError, text)
	}
}

// Files wait for room among those of about their size, and small ones do not wait.
func TestLargeFilesWait(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	e := editor{rig.Workspace, room.New(1), room.New(1)}
	edit := func(ctx context.Context, blanks int) error {
		rig.Put("f", "x"+strings.Repeat("\n", blanks))
		_, err := e.edit(ctx, rig.Path("f"), arguments{"f", []replacement{{"x", "y"}}})
		if edited := rig.Get("f")[0] == 'y'; edited != (err == nil) {
			t.Errorf("%d bytes: error %v, edited %v", blanks, err, edited)
		}
		return err
	}
	for full, waits := range map[room.Room]int{e.room: maxSmall, e.large: maxTogether} {
		leave, err := full.Take(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		for _, size := range []int{1, maxSmall, maxTogether} {
			ctx, cancel := context.WithCancel(t.Context())
			if size == waits {
				ctx, cancel = context.WithTimeout(t.Context(), 10*time.Millisecond)
			}
			if err := edit(ctx, size); (err != nil) != (size == waits) {
				t.Errorf("%d bytes, files of %d have no room: error %v", size, waits, err)
			}
			cancel()
		}
		leave()
		for range 2 { // the first releases the room
			if err := edit(t.Context(), waits); err != nil {
				t.Errorf("%d bytes: %v", waits, err)
			}
		}
	}
}

// A diff shows a part of very large changes, and has the right line numbers, however far down a change is.
func TestLargeDiffs(t *testing.T) {
	t.Parallel()
	text, first := diff([]byte("a\n"+strings.Repeat("x\n", maxLines)), []byte("a\n"+strings.Repeat("y\n", maxLines)))
	if first != 2 || len(text) > 2*maxDiff || !strings.HasPrefix(text, "      1 a\n-     2 x\n") ||
		!strings.HasSuffix(text, "\n        ...") {
		t.Errorf("line %d, %d bytes, %.40q", first, len(text), text)
	}
	lines := strings.Repeat("x\n", maxLines)
	text, first = diff([]byte(lines+"a\n"+lines), []byte(lines+"b\n"+lines))
	const want = "- 524289 a\n+ 524289 b\n"
	if first != maxLines+1 || !strings.Contains(text, want) || strings.Count(text, "\n") != 11 {
		t.Errorf("line %d: %s", first, text)
	}
}
