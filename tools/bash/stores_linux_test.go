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

// putStores makes the directories from up to to, which look like stores, with links in the root. Their paths are so
// long that the kernel does not take a few hundred of them as an argument of a program.
func putStores(rig *tooltest.Rig, from, to int) {
	deep := strings.Repeat(strings.Repeat("deep", 50)+"/", 3)
	for i := range to - from {
		store := fmt.Sprintf("%sstore-%d", deep, from+i)
		rig.Put(store+"/"+schemas.StoreMark, "")
		rig.Link(fmt.Sprintf("link-%d", from+i), store)
	}
}

// A sandbox hides many stores. If there are too many, commands are refused with what to do, and a worker still starts.
func TestSandboxHidesManyStores(t *testing.T) {
	inEach(t, bash.Options{}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		const most = 256
		putStores(rig, 0, most)
		const command = `ls -A link-*/ | grep -c ^loopbus`
		if got, _ := run(t, tool, command); !strings.HasPrefix(got, "0\n") {
			t.Errorf("with %d stores: %.300q", most, got)
		}
		putStores(rig, most, most+1)
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

// What a link in the workspace leads to stays hidden after a command has removed the link, until it is no store.
func TestSandboxHidesWhatARemovedLinkLedTo(t *testing.T) {
	inEach(t, bash.Options{SandboxHide: []string{"key"}}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		rig.Put("deep/store/"+schemas.StoreMark, "")
		rig.Put("deep/store/log", treasure)
		rig.Put("deep/key", treasure)
		rig.Link("key", "deep/key")
		rig.Link("link", "deep/store")
		for range 2 { // the second command finds no links
			if got, _ := run(t, tool, "cat deep/key deep/store/log; rm -f key link"); strings.Contains(got, treasure) {
				t.Errorf("it is read: %s", got)
			}
		}
		if err := os.Remove(rig.Path("deep/store/" + schemas.StoreMark)); err != nil {
			t.Fatal(err)
		}
		if got, isError := run(t, tool, "cat deep/store/log"); isError || got != treasure {
			t.Errorf("a directory that is no store any more: %q", got)
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

// With a sandbox, the directory for long outputs is not where a command could put a link in its place: the worker
// writes and removes files there outside of the sandbox.
func TestOutputsAreNotKeptInTheWorkspaceOfASandbox(t *testing.T) {
	t.Parallel()
	rig := tooltest.New(t)
	elsewhere := t.TempDir()
	rig.Link("link", elsewhere)
	into := filepath.Join(elsewhere, "into")
	if err := os.Symlink(rig.Root, into); err != nil {
		t.Fatal(err)
	}
	for dir, refused := range map[string]bool{
		rig.Root: true, rig.Path("out"): true, rig.Path("deep/out"): true, rig.Path("link/out"): true, into: true,
		filepath.Join(into, "out"): true, elsewhere: false, rig.Root + "-out": false,
	} {
		err := bash.Check(t.Context(), bash.Options{Sandbox: bash.SandboxNamespaces, Workspace: rig.Workspace, TempDir: dir,
			Environ: []string{"PATH=" + os.Getenv("PATH")}})
		if got := err != nil && strings.Contains(err.Error(), "directory for long outputs"); got != refused {
			t.Errorf("%s: refused: %v (%v)", dir, got, err)
		}
	}
}
