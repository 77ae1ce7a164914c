package bash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/internal/tooltest"
	"github.com/loopbus/loopbus/tools/workspace"
)

// A path that would hide nothing, or the workspace, is a mistake that a worker must not start with.
func TestPathsThatCannotBeHiddenAreRefused(t *testing.T) {
	t.Parallel()
	for _, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		t.Run(string(sandbox), func(t *testing.T) {
			t.Parallel()
			rig := tooltest.New(t)
			rig.Put("key", treasure)
			rig.Link("dangling", "nothing")
			rig.Link("up", "..")
			rig.Link("ok", "key")
			outside := t.TempDir()
			for path, want := range map[string]string{
				rig.Path("key"):        "",
				rig.Path("ok"):         "",
				outside:                "",
				rig.Path("kye"):        "no such file or directory",
				"~/.ssh":               "no such file or directory",
				"no-such-file":         "no such file or directory",
				rig.Path("dangling"):   "no such file or directory",
				rig.Path("key/inside"): "make an empty directory or file there",
				"":                     "it is empty",
				rig.Root:               "the workspace " + rig.Root + " is in it",
				rig.Path("up"):         "the workspace " + rig.Root + " is in it",
				filepath.Dir(rig.Root): "the workspace " + rig.Root + " is in it",
				"/":                    "the workspace " + rig.Root + " is in it",
			} {
				o := bash.Options{Workspace: rig.Workspace, Sandbox: sandbox, TempDir: t.TempDir(), SandboxHide: []string{path}}
				name, err := fmt.Sprintf("cannot hide %q from commands", path), bash.Check(t.Context(), o)
				if want == "" && err != nil && strings.Contains(err.Error(), "cannot hide") ||
					want != "" && (err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), want)) {
					t.Errorf("%q: %v, want %s", path, err, want)
				}
			}
		})
	}
}

// Private files need not exist, because no one has asked to hide them. They are hidden once they do.
func TestSandboxHidesPrivateFilesThatAppearLater(t *testing.T) {
	for _, sandbox := range []bash.Sandbox{bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		t.Run(string(sandbox), func(t *testing.T) {
			rig := tooltest.New(t)
			w, err := workspace.Open(workspace.Options{Root: rig.Root, Private: []string{rig.Path("keys.json")}})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = w.Close() })
			o := bash.Options{Workspace: w, Sandbox: sandbox, TempDir: t.TempDir(),
				Environ: []string{"PATH=" + os.Getenv("PATH")}}
			need(t, o)
			tool := bash.New(o)
			rig.Put("keys.json", treasure)
			if got, _ := run(t, tool, "cat keys.json; echo it runs"); strings.Contains(got, treasure) ||
				!strings.Contains(got, "it runs\n") {
				t.Errorf("%q", got)
			}
		})
	}
}

// A command that has the hidden link lead to a directory with the workspace in it reveals nothing: no command runs
// until somebody has corrected the link.
func TestSandboxHidesTheRestIfALinkLeadsAboveTheWorkspace(t *testing.T) {
	hide := []string{"link", "key"}
	inEach(t, bash.Options{SandboxHide: hide}, func(t *testing.T, tool tools.Tool, rig *tooltest.Rig) {
		rig.Put("key", treasure)
		rig.Put("deep/key", treasure)
		rig.Link("link", "deep")
		for _, above := range []string{"/", "..", "."} {
			got, isError := run(t, tool, "cat key deep/key; rm link; ln -s "+above+" link; readlink link")
			if strings.Contains(got, treasure) || !strings.Contains(got, above+"\n") {
				t.Errorf("%s: %v %q", above, isError, got)
			}
			got, isError = run(t, tool, "cat key deep/key")
			if !isError || !strings.Contains(got, "Cannot execute bash commands: ") ||
				!strings.Contains(got, fmt.Sprintf("cannot hide %q from commands", rig.Path("link"))) {
				t.Errorf("%s: %v %q", above, isError, got)
			}
			if err := os.Remove(rig.Path("link")); err != nil {
				t.Fatal(err)
			}
			rig.Link("link", "deep")
		}
		if got, _ := run(t, tool, "cat key deep/key; echo it runs"); strings.Contains(got, treasure) ||
			!strings.Contains(got, "it runs\n") {
			t.Errorf("with a corrected link: %q", got)
		}
	})
}
