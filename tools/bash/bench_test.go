package bash_test

import (
	"os"
	"testing"

	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/workspace"
)

// BenchmarkCommand is what a command costs that does nothing.
func BenchmarkCommand(b *testing.B) {
	for _, sandbox := range []bash.Sandbox{bash.SandboxNone, bash.SandboxBubblewrap, bash.SandboxNamespaces} {
		b.Run(string(sandbox), func(b *testing.B) { benchmarkCommand(b, sandbox) })
	}
}

func benchmarkCommand(b *testing.B, sandbox bash.Sandbox) {
	w, err := workspace.Open(workspace.Options{Root: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer w.Close()
	o := bash.Options{Workspace: w, TempDir: b.TempDir(), Sandbox: sandbox, Environ: os.Environ()}
	if err := bash.Check(b.Context(), o); err != nil { // it also starts what is started with the first command
		b.Skipf("this machine does not have it: %v", err)
	}
	tool := bash.New(o)
	for b.Loop() {
		if result, isError := tool.Run(b.Context(), call("true"), nil); isError {
			b.Fatal(result.Content.JoinText())
		}
	}
}
