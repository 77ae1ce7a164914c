package bash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
)

// putStores makes n directories that look like stores. Their names are long: together they do not fit on a command
// line.
func putStores(rig *tooltest.Rig, n int) {
	for i := range n {
		rig.Put(fmt.Sprintf("%s-%d/%s", strings.Repeat("store", 30), i, schemas.StoreMark), "")
	}
}

// A sandbox hides many stores. If there are too many, commands are refused with what to do, and a worker still starts.
func TestSandboxHidesManyStores(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		const most = 256
		putStores(rig, most)
		const command = `ls -A store* | grep -c ^loopbus`
		if got, _ := run(t, tool, command); !strings.HasPrefix(got, "0\n") {
			t.Errorf("with %d stores: %.300q", most, got)
		}
		putStores(rig, most+1)
		if got, isError := run(t, tool, command); !isError || !strings.Contains(got, "at most 256 ") ||
			!strings.Contains(got, schemas.StoreMark) {
			t.Errorf("with another: %.300q", got)
		}
		o := bash.Options{Workspace: rig.Workspace, Sandbox: bash.Sandbox(filepath.Base(t.Name())), Environ: os.Environ()}
		if err := bash.Check(t.Context(), o); err != nil {
			t.Errorf("a worker that starts: %.300v", err)
		}
	})
}

// A store within a store, and one with many names, is hidden once: commands run.
func TestSandboxHidesNestedStores(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		for _, store := range []string{"a", "a/b", "a-c"} {
			rig.Put(store+"/"+schemas.StoreMark, "")
		}
		for i := range 1000 {
			rig.Link(fmt.Sprint("link", i), "a/b")
		}
		if got, isError := run(t, tool, `ls -A a a-c`); isError || got != "a:\n\na-c:\n" {
			t.Errorf("%.300q", got)
		}
	})
}
