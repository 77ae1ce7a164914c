package schemas

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Every code of a refusal has a row of its table in the protocol, or is named there as reserved, and the JavaScript
// client has the same ones.
func TestRejectCodesAreDocumented(t *testing.T) {
	want := sorted(stringConstants(t)["RejectCode"])
	protocol := readText(t, "../docs/protocol.md")
	_, table, found := strings.Cut(protocol, "\n| code | when |\n")
	table, _, ended := strings.Cut(table, "\n\nA command that cannot be read")
	if !found || !ended {
		t.Fatal("docs/protocol.md has no table of codes")
	}
	quoted := regexp.MustCompile("`([a-z_]+)`")
	var got []string
	for line := range strings.Lines(table) {
		cells := strings.SplitN(line, "|", 3)
		if len(cells) < 3 {
			cells = []string{"", line} // the reserved ones
		}
		for _, code := range quoted.FindAllStringSubmatch(cells[1], -1) {
			got = append(got, code[1])
		}
	}
	if d := cmp.Diff(want, sorted(got)); d != "" {
		t.Errorf("docs/protocol.md (-Go +document):\n%s", d)
	}
	_, list, found := strings.Cut(readText(t, "../bus/client/js/loopbus.js"), "export const REJECT_CODES = ")
	list, _, ended = strings.Cut(list, ");")
	if !found || !ended {
		t.Fatal("bus/client/js/loopbus.js has no list of codes")
	}
	got = nil
	for _, code := range regexp.MustCompile(`"([a-z_]+)"`).FindAllStringSubmatch(list, -1) {
		got = append(got, code[1])
	}
	if d := cmp.Diff(want, sorted(got)); d != "" {
		t.Errorf("bus/client/js/loopbus.js (-Go +JavaScript):\n%s", d)
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
