package permissions_test

import (
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/permissions"
)

var update = flag.Bool("update", false, "write the tables of docs/operations.md")

// TestTheTablesOfTheDocument holds docs/operations.md against the roles that configurations are rendered from.
func TestTheTablesOfTheDocument(t *testing.T) {
	t.Parallel()
	const path = "../../docs/operations.md"
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := string(data)
	for _, table := range []string{permissions.Table(), permissions.CommandTable()} {
		head, _, _ := strings.Cut(table, "\n")
		before, rest, ok := strings.Cut(text, head+"\n")
		if !ok {
			t.Fatalf("%s has no table %s", path, head)
		}
		have, after, _ := strings.Cut(head+"\n"+rest, "\n\n")
		if d := cmp.Diff(table, have+"\n"); d != "" && !*update {
			t.Errorf("%s differs from the package; -update writes it (-package +document):\n%s", path, d)
		}
		text = before + table + "\n" + after
	}
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}
