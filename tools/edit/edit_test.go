package edit_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// args are the arguments of a call with pairs of old and new texts.
func args(path string, pairs ...string) map[string]any {
	edits := []map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		edits = append(edits, map[string]string{"oldText": pairs[i], "newText": pairs[i+1]})
	}
	return map[string]any{"path": path, "edits": edits}
}

// What is not named by an edit stays byte for byte.
func TestEditsLeaveTheRestAlone(t *testing.T) {
	for _, c := range []struct {
		name, file string
		pairs      []string
		want       string
	}{
		{"byte order mark and CRLF", "\uFEFFa\r\nb\r\n", []string{"a\nb", "1\n2\n3"}, "\uFEFF1\r\n2\r\n3\r\n"},
		{"a byte order mark that is named is text", "\uFEFF\uFEFFa", []string{"\uFEFFa", "b"}, "\uFEFFb"},
		{"CRLF in the arguments", "a\nb\n", []string{"a\r\nb", "1\r\n2"}, "1\n2\n"},
		{"a break added to the last line", "a\r\nb", []string{"b", "b\nc"}, "a\r\nb\r\nc"},
		{"a break added to the only line", "a", []string{"a", "a\nb"}, "a\nb"},
		{"a break added inside a line", "a\nb c\r\nd\n", []string{"b c", "b\nc"}, "a\nb\r\nc\r\nd\n"},
		{"each line's own ending", "a\r\nb\nc\rd\r\n", []string{"a\nb\nc\n", "1\n2\n3\n"}, "1\r\n2\n3\rd\r\n"},
		{"two edits in lines that end differently", "a\r\nb\nc\r\n", []string{"c", "c\nc", "b", "b\nb"},
			"a\r\nb\nb\nc\r\nc\r\n"},
		{"neighbours", "abcd", []string{"ab", "1", "cd", "2"}, "12"},
		{"a whole line with its break", "a  \r\nb\r\nc  \r\n", []string{"b\n", ""}, "a  \r\nc  \r\n"},
		{"blanks before the match, not those at its end", "x  \n  a  \ny\t\n", []string{"  a\ny", "1\n2"}, "x  \n1\n2\n"},
		{"a break that is replaced after blanks", "a“  \nb\n", []string{"a\"\nb", "c\nd"}, "c\nd\n"},
		{"a match that begins at a break", "“  \nb”\n", []string{"\nb\"", "\nc"}, "“  \nc\n"},
		{"the rest of a line with typographic quotes", "“a” “b” “c”\n", []string{`"b"`, "2"}, "“a” 2 “c”\n"},
		{"half of a ligature", "ﬁre\n", []string{"fir", "f"}, "fe\n"},
		{"the start of a ligature", "ﬁre\n", []string{"f", "g"}, "gire\n"},
		{"the end of a ligature", "ﬁre\n", []string{"ire", "lm"}, "flm\n"},
		{"composed and decomposed", "cafe\u0301 1\ncafe\u0301 2\n", []string{"café 1", "tea"}, "tea\ncafe\u0301 2\n"},
		{"not UTF-8, exactly", "\xff\xfea\n\xe9\n", []string{"a", "b"}, "\xff\xfeb\n\xe9\n"},
		{"not UTF-8, folded", "\xff“a”\n\xe9  \n", []string{`"a"`, "b"}, "\xffb\n\xe9  \n"},
		{"not UTF-8, as it is shown", "a\xe2\x82b\n", []string{"a\uFFFDb", "c"}, "c\n"},
		{"null bytes", "a\x00b\x00c", []string{"b\x00", "x"}, "a\x00xc"},
		{"blanks only", "a   b\n", []string{"   ", " "}, "a b\n"},
		{"an exact text and a folded one", "a  \n“b”\n", []string{`"b"`, "2", "a", "1"}, "1\n2\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := tooltest.New(t)
			rig.Put("f", c.file)
			text, isError := rig.Text(edit.New(rig.Workspace), args("f", c.pairs...))
			if isError {
				t.Fatal(text)
			}
			if d := cmp.Diff(c.want, rig.Get("f")); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

// What edit does not know is named, once aliases have their names, and nothing is changed. The tool itself refuses it,
// too: a call may have been validated by a schema in a vendor's form.
func TestUnknownArguments(t *testing.T) {
	for _, c := range []struct{ name, args, unknown string }{
		{"at the top", `{"path":"f","edits":[{"oldText":"a","newText":"b"}],"replaceAll":true}`, "replaceAll"},
		{"in a list", `{"path":"f","edits":[{"oldText":"a","newText":"b"},{"oldText":"c","newText":"d","replace_all":true}]}`,
			"edits.1.replace_all"},
		{"in a list sent as text", `{"path":"f","edits":"[{\"oldText\":\"a\",\"newText\":\"b\",\"x\":1}]"}`, "edits.0.x"},
		{"beside an alias", `{"file_path":"f","old_string":"a","new_string":"b","expected_replacements":1}`,
			"expected_replacements"},
		{"an alias of what is there", `{"file_path":"f","path":"f","old_string":"a","new_string":"b"}`, "file_path"},
		{"two aliases", `{"path":"f","old_string":"a","old_str":"c","new_string":"b"}`, "old_str"},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := tooltest.New(t)
			rig.Put("f", "a\nc\n")
			tool := edit.New(rig.Workspace)
			arguments := toolargs.Rewrite(t.Context(), tool.ArgumentRewrites, json.RawMessage(c.args))
			result, isError := tool.Run(t.Context(), tools.Call{Arguments: arguments}, nil)
			if text := result.Content.JoinText(); !isError || !strings.Contains(text, "\n  - "+c.unknown+": ") {
				t.Errorf("the tool: error %v, %q", isError, text)
			}
			if text, isError := rig.Text(tool, c.args); !isError || !strings.Contains(text, "\n  - "+c.unknown+": ") {
				t.Errorf("the schema: error %v, %q", isError, text)
			}
			if got := rig.Get("f"); got != "a\nc\n" {
				t.Errorf("the file has become %q", got)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	const more = " Please provide more context to make it unique."
	for _, c := range []struct {
		name, file string
		pairs      []string
		want       string
	}{
		{"twice", "ab ab", []string{"ab", "c"}, "Found 2 occurrences of the text in f. The text must be unique." + more},
		{"twice when folded", "“a”\n\"a\"\n", []string{`"a"`, "b"},
			"Found 2 occurrences of the text in f. The text must be unique." + more},
		{"blanks twice", "a  b  c", []string{"  ", " "},
			"Found 2 occurrences of the text in f. The text must be unique." + more},
		{"the same edit twice", "abc", []string{"b", "1", "b", "2"},
			"edits[0] and edits[1] overlap in f. Merge them into one edit or target disjoint regions."},
		{"one in another", "abcd", []string{"bc", "1", "abcd", "2"},
			"edits[1] and edits[0] overlap in f. Merge them into one edit or target disjoint regions."},
		{"two halves of one character", "ﬁ", []string{"i", "1", "f", "2"},
			"edits[1] and edits[0] overlap in f. Merge them into one edit or target disjoint regions."},
		{"blanks that are not there", "ab", []string{" ", "1"},
			"Could not find the exact text in f. The old text must match exactly including all whitespace and newlines."},
		{"an empty one of several", "ab", []string{"a", "1", "", "2"}, "edits[1].oldText must not be empty in f."},
		{"what was there already", "a–b", []string{"a-b", "a–b"},
			"No changes made to f. The replacement produced identical content. This might indicate an issue with special " +
				"characters or the text not existing as expected."},
		{"what folds to the same", "“a”", []string{`"a"`, `"a"`},
			"No changes made to f. The replacement produced identical content. This might indicate an issue with special " +
				"characters or the text not existing as expected."},
	} {
		t.Run(c.name, func(t *testing.T) {
			rig := tooltest.New(t)
			rig.Put("f", c.file)
			if text, isError := rig.Text(edit.New(rig.Workspace), args("f", c.pairs...)); !isError || text != c.want {
				t.Errorf("%v %q, want %q", isError, text, c.want)
			}
			if got := rig.Get("f"); got != c.file {
				t.Errorf("the file became %q", got)
			}
		})
	}
}

func TestFilesThatCannotBeEdited(t *testing.T) {
	rig := tooltest.New(t)
	tool := edit.New(rig.Workspace)
	rig.Put("d/f", "a")
	rig.Link("loop", "loop")
	rig.Link("out", "../outside/secret")
	if err := syscall.Mkfifo(rig.Path("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"none":     "Could not edit file: none. Error code: ENOENT.",
		"d/f/g":    "Could not edit file: d/f/g. Error code: ENOTDIR.",
		"loop":     "Could not edit file: loop. Error code: ELOOP.",
		"a\x00b":   "Could not edit file: a\x00b. Error code: ERR_INVALID_ARG_VALUE.",
		"d":        "EISDIR: illegal operation on a directory, read",
		"fifo":     "Not a regular file: " + rig.Path("fifo"),
		"out":      "Access denied: " + rig.Path("out") + " is outside " + rig.Root + ", and only files inside may be used",
		"../root2": "Access denied: " + rig.Root + "2 is outside " + rig.Root + ", and only files inside may be used",
	} {
		if text, isError := rig.Text(tool, args(path, "a", "b")); !isError || text != want {
			t.Errorf("%q: %v %q, want %q", path, isError, text, want)
		}
	}
	if got := rig.Get("../outside/secret"); got != "secret\n" {
		t.Errorf("the file outside became %q", got)
	}
}

// A file that must not be written, or read, is reported with the code of the system. To root nothing is forbidden.
func TestFilesWithoutPermission(t *testing.T) {
	rig := tooltest.New(t)
	tool := edit.New(rig.Workspace)
	for _, mode := range []os.FileMode{0o000, 0o444, 0o222} {
		rig.Put("f", "a")
		if err := os.Chmod(rig.Path("f"), mode); err != nil {
			t.Fatal(err)
		}
		want := "Could not edit file: f. Error code: EACCES."
		if file, err := os.OpenFile(rig.Path("f"), os.O_RDWR, 0); err == nil {
			want = "Successfully replaced 1 block(s) in f."
			if err := file.Close(); err != nil {
				t.Fatal(err)
			}
		}
		if text, _ := rig.Text(tool, args("f", "a", "b")); text != want {
			t.Errorf("%o: %q, want %q", mode, text, want)
		}
		if err := os.Remove(rig.Path("f")); err != nil {
			t.Fatal(err)
		}
	}
}

// An edit is in place: mode and hard links stay.
func TestModeAndLinksStay(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("f", "#!/bin/sh\necho long text\n")
	if err := os.Chmod(rig.Path("f"), 0o751); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(rig.Path("f"), rig.Path("hard")); err != nil {
		t.Fatal(err)
	}
	rig.Link("soft", rig.Path("f"))
	if text, isError := rig.Text(edit.New(rig.Workspace), args("soft", "echo long text", "ls")); isError {
		t.Fatal(text)
	}
	info, err := os.Stat(rig.Path("f"))
	if err != nil || info.Mode().Perm() != 0o751 || rig.Get("hard") != "#!/bin/sh\nls\n" {
		t.Errorf("%v, %v, %q", info.Mode(), err, rig.Get("hard"))
	}
	if target, err := os.Readlink(rig.Path("soft")); err != nil || target != rig.Path("f") {
		t.Errorf("%s, %v", target, err)
	}
}

func TestLongLine(t *testing.T) {
	rig := tooltest.New(t)
	long := strings.Repeat("0123456789abcde ", 5<<20/16)
	rig.Put("f", "first\n"+long+"END”\nlast")
	if text, isError := rig.Text(edit.New(rig.Workspace), args("f", "END\"\nlast", "done")); isError {
		t.Fatal(text)
	}
	if got := rig.Get("f"); got != "first\n"+long+"done" {
		t.Errorf("%d bytes, %q", len(got), got[len(got)-20:])
	}
}

func TestNamesModelsSend(t *testing.T) {
	for _, arguments := range []string{
		`{"file_path":"f","edits":[{"old_text":"a","new_text":"b"}]}`,
		`{"path":"f","edits":[{"old_string":"a","new_string":"b"}]}`,
		`{"path":"f","edits":"[{\"oldText\":\"a\",\"newText\":\"b\"}]"}`,
		`{"path":"f","edits":"[{\"old_str\":\"a\",\"new_str\":\"b\"}]"}`,
		`{"path":"f","oldText":"a","newText":"b"}`,
		`{"file_path":"f","old_string":"a","new_string":"b"}`,
		`{"path":"f","old_text":"a","new_text":"b"}`,
	} {
		rig := tooltest.New(t)
		rig.Put("f", "a\n")
		if text, isError := rig.Text(edit.New(rig.Workspace), arguments); isError || rig.Get("f") != "b\n" {
			t.Errorf("%s: %s", arguments, text)
		}
	}
	rig := tooltest.New(t)
	rig.Put("f", "a c\n")
	both := `{"path":"f","edits":[{"oldText":"a","newText":"b"}],"oldText":"c","newText":"d"}`
	if text, isError := rig.Text(edit.New(rig.Workspace), both); isError || rig.Get("f") != "b d\n" {
		t.Errorf("%s: %s", both, text)
	}
}

// Many edits of one file at once: none is lost.
func TestEditsAtOnce(t *testing.T) {
	rig := tooltest.New(t)
	tool := edit.New(rig.Workspace)
	var file, want strings.Builder
	for c := 'a'; c <= 'z'; c++ {
		file.WriteString(string(c) + "\n")
		want.WriteString(strings.ToUpper(string(c)) + "\n")
	}
	rig.Put("f", file.String())
	var running sync.WaitGroup
	for c := 'a'; c <= 'z'; c++ {
		running.Go(func() {
			if text, isError := rig.Text(tool, args([]string{"f", "./f", rig.Path("f")}[c%3], string(c),
				strings.ToUpper(string(c)))); isError {
				t.Error(text)
			}
		})
	}
	running.Wait()
	if got := rig.Get("f"); got != want.String() {
		t.Errorf("got %q", got)
	}
}

// A call that is aborted while it waits for its turn changes nothing.
func TestAbortWhileWaiting(t *testing.T) {
	rig := tooltest.New(t)
	rig.Put("f", "a")
	ctx, cancel := context.WithCancel(t.Context())
	before := rig.Workspace.Queued()
	raw, err := json.Marshal(args("f", "a", "b"))
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan schemas.ToolResult, 1)
	err = rig.Workspace.Exclusive(t.Context(), filepath.Join(rig.Root, "f"), func() error {
		go func() {
			result, _ := edit.New(rig.Workspace).Run(ctx, tools.Call{Arguments: raw}, nil)
			answered <- result
		}()
		cancel()
		result := <-answered // it does not wait for us
		if got := result.Content.JoinText(); got != "Operation aborted" {
			t.Errorf("got %q", got)
		}
		return nil
	})
	if err != nil || rig.Get("f") != "a" || rig.Workspace.Queued() > before+2 {
		t.Errorf("%v, %q", err, rig.Get("f"))
	}
}
