package retention_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/retention/archive"
)

// Another reader of JSON finds in an archive what is checked: a member that is there twice, is unknown or written in
// another case, a second member of a line, and lines behind the end are refused, though all hashes fit.
func TestOtherReadersFindInAnArchiveWhatIsChecked(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.log("s1", big())
	file := w.archived("s1")
	lines := strings.SplitAfter(file, "\n")[:7]
	opening, payload, first, last, end := lines[0], lines[1], lines[2], lines[5], lines[6]
	inner := func(line string) string { return line[1 : len(line)-2] } // the member of a line
	forgery := strings.Replace(first, `"code":"`, `"code":"forged `, 1)
	var kept struct {
		Message struct{ Header, Batch json.RawMessage }
	}
	w.must(json.Unmarshal([]byte(first), &kept))
	raw := fmt.Sprintf("%q", base64.StdEncoding.EncodeToString(kept.Message.Batch))
	for _, c := range []struct {
		name, old, forged string // a text of the archive, and what replaces it
		line              int
	}{
		{"a message in another case", first, "{" + inner(forgery) + "," + strings.Replace(first[1:], "m", "M", 1), 3},
		{"a message twice", first, "{" + inner(forgery) + "," + inner(first) + "}\n", 3},
		{"an unknown member", first, "{" + inner(first) + `,"event":1}` + "\n", 3},
		{"a message in the opening", opening, "{" + inner(opening) + "," + inner(forgery) + "}\n", 1},
		{"a message and a payload", first, "{" + inner(payload) + "," + inner(first) + "}\n", 3},
		{"a member that is null", first, "{" + inner(first) + `,"payload":null}` + "\n", 3},
		{"the end and a message", end, "{" + inner(forgery) + "," + inner(end) + "}\n", 7},
		{"an opening later", first, "{" + inner(opening) + "," + inner(first) + "}\n", 3},
		{"a version twice", `"version":1`, `"version":2,"version":1`, 1},
		{"a session in another case", `"session":"s1"`, `"session":"s1","Session":"s1"`, 1},
		{"a time in another form", `Z"}}`, `+00:00"}}`, 1},
		{"a payload's data twice", `"data":"`, `"data":"Zm9yZ2Vk","data":"`, 2},
		{"a payload's data in lines", `"data":"e`, `"data":"\ne`, 2},
		{"a batch twice", `"batch":`, `"batch":[{"id":"forged"}],"batch":`, 3},
		{"a batch in another case", `"batch":`, `"batch":[{"id":"forged"}],"bAtch":`, 3},
		{"a batch and bytes", `,"batch":`, `,"raw":` + raw + `,"batch":`, 3},
		{"bytes and no batch", `"batch":` + string(kept.Message.Batch), `"raw":` + raw, 3},
		{"an unknown part of a message", `,"batch":`, `,"note":"forged","batch":`, 3},
		{"headers twice", `"header":{`, `"header":{"ce-x":["a"]},"header":{`, 3},
		{"a header twice", `"header":{`, `"header":{"Loopbus-Commit":["v2 7-9"],`, 3},
		{"a hash twice", `"hash":"`, `"hash":"00","hash":"`, 7},
		{"the end in another case", `"events":`, `"Events":9,"events":`, 7},
		{"messages behind the end", end, end + forgery, 8},
		{"a second archive", end, end + file, 8},
		{"text behind the end", end, end + "forged", 8},
		{"null bytes behind the end", end, end + "\x00", 8},
		{"a message in the end's line", end, strings.TrimSpace(end) + last, 8},
	} {
		text := strings.Replace(file, c.old, c.forged, 1)
		_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, strings.NewReader(text))
		if !errors.Is(err, archive.ErrBad) || !strings.Contains(err.Error(), fmt.Sprintf("line %d: ", c.line)) ||
			text == file {
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if left := w.places("s1"); len(left) > 0 {
		t.Errorf("left %q", left)
	}
	text := strings.ReplaceAll(file, "\n", "\r\n") + " \t\n\n" // as a mail program or an editor leaves it
	_, err := archive.Restore(bustest.Deadline(t), w.conn, w.store, strings.NewReader(text))
	w.must(err)
}
