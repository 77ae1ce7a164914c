package bridges_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
)

// node runs a JavaScript program with the official clients, and fails the test with its output if it fails. Without
// Node.js or the clients the test is skipped; in CI it fails.
func node(t *testing.T, program string, args ...string) {
	t.Helper()
	_, found := exec.LookPath("node")
	_, installed := os.Stat(filepath.Join("node_modules", "@ag-ui", "client"))
	if err := errors.Join(found, installed); err != nil {
		const how = "install Node.js 20 or later and run npm ci in integration/bridges"
		if os.Getenv("CI") != "" {
			t.Fatalf("%v: %s", err, how)
		}
		t.Skipf("%v: %s", err, how)
	}
	ctx, cancel := context.WithTimeout(t.Context(), system.Deadline)
	defer cancel()
	out, err := exec.CommandContext(ctx, "node", append([]string{program}, args...)...).CombinedOutput()
	if err != nil {
		t.Errorf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
}

func TestAGUIClients(t *testing.T) {
	t.Parallel()
	for _, pkg := range []string{"@ag-ui/client", "@ag-ui/client-0.0.59"} {
		t.Run(pkg, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			node(t, "agui.mjs", pkg, r.url)
			if t.Failed() || t.Skipped() {
				return
			}
			for session, want := range map[string]int{"hello": 2, "twice": 1, "leaves": 1, "frontend": 1} {
				prompts := 0
				for e, err := range r.Store.Read(t.Context(), session, 1) {
					if err != nil {
						t.Fatal(err)
					}
					if d, ok := e.Data.(*schemas.CommandAccepted); ok && d.Kind == schemas.CommandPrompt {
						prompts++
					}
				}
				if prompts != want {
					t.Errorf("session %s has %d prompts, want %d", session, prompts, want)
				}
			}
			answers := system.DataOf[*schemas.ApprovalResolved](r.LogOf(t, "edited"))
			if len(answers) != 1 || string(answers[0].Args) != `{"v":"z"}` {
				t.Errorf("the log has the answers %+v", answers)
			}
		})
	}
}

func TestGatewayClient(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	node(t, "gateway.mjs", strings.Replace(r.url, "http", "ws", 1)+"/gateway", chatToken)
}

func TestNATSClientOfBrowsers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	node(t, "nats.mjs", strings.Replace(r.url, "http", "ws", 1)+"/nats")
}
