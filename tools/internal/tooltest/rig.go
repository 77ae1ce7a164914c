// Package tooltest sets up a tool under test: with its own workspace, and with calls as an agent makes them.
package tooltest

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/workspace"
)

// A Rig is a workspace in a directory that is removed at the end of the test.
type Rig struct {
	Root      string // links resolved
	Workspace *workspace.Workspace

	t *testing.T
}

// New creates a rig with an empty root. Beside the root it creates a directory "outside" with a file "secret".
func New(t *testing.T) *Rig {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	r := &Rig{Root: filepath.Join(base, "root"), t: t}
	if err := os.Mkdir(r.Root, 0o755); err != nil {
		t.Fatal(err)
	}
	r.Put("../outside/secret", "secret\n")
	if r.Workspace, err = workspace.Open(workspace.Options{Root: r.Root, Home: r.Root}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = r.Workspace.Close() })
	return r
}

// Path returns the absolute path of a file below the root.
func (r *Rig) Path(name string) string { return filepath.Join(r.Root, name) }

// Put writes a file. It creates the directory if necessary.
func (r *Rig) Put(name, content string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.Path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(r.Path(name), []byte(content), 0o644); err != nil {
		r.t.Fatal(err)
	}
}

// Link creates a symbolic link. It creates the directory if necessary.
func (r *Rig) Link(name, target string) {
	r.t.Helper()
	if err := os.MkdirAll(filepath.Dir(r.Path(name)), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Symlink(target, r.Path(name)); err != nil {
		r.t.Fatal(err)
	}
}

// Get returns the content of a file.
func (r *Rig) Get(name string) string {
	r.t.Helper()
	data, err := os.ReadFile(r.Path(name))
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// Run calls a tool as an agent does: it rewrites and validates the arguments first. args is JSON in a string, or a
// value to encode as JSON.
func (r *Rig) Run(tool tools.Tool, args any) (result schemas.ToolResult, isError bool) {
	r.t.Helper()
	raw, ok := args.(string)
	if !ok {
		data, err := json.Marshal(args)
		if err != nil {
			r.t.Fatal(err)
		}
		raw = string(data)
	}
	schema, err := toolargs.Compile(tool.Parameters)
	if err != nil {
		r.t.Fatal(err)
	}
	rewritten := toolargs.Rewrite(r.t.Context(), tool.ArgumentRewrites, json.RawMessage(raw))
	valid, err := schema.Validate(r.t.Context(), tool.Name, rewritten)
	if err != nil {
		return schemas.ErrorResult(err.Error()), true
	}
	return tool.Run(r.t.Context(), tools.Call{Arguments: valid}, nil)
}

// Text calls a tool and returns the text of its result.
func (r *Rig) Text(tool tools.Tool, args any) (text string, isError bool) {
	r.t.Helper()
	result, isError := r.Run(tool, args)
	return result.Content.JoinText(), isError
}
