package client_test

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// TestLinksNeitherServerNorWatermill limits what a program links when it imports the client: nats.go, package
// schemas, leaf packages, and their dependencies.
func TestLinksNeitherServerNorWatermill(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", ".").Output()
	if err != nil {
		t.Fatalf("go list -deps: %v", err)
	}
	leaves := []string{"bus/client", "bus/dial", "bus/headerlimit", "bus/natsio", "bus/shares"}
	const ours = "github.com/loopbus/loopbus/"
	packages := strings.Fields(string(out))
	for _, path := range packages {
		folder, module := strings.CutPrefix(path, ours)
		switch {
		case module && !strings.HasPrefix(folder+"/", "schemas/") && !slices.Contains(leaves, folder):
			t.Errorf("the client links %s", path)
		case strings.HasPrefix(path, "github.com/nats-io/nats-server"), strings.HasPrefix(path, "github.com/ThreeDotsLabs"):
			t.Errorf("the client links %s", path)
		}
	}
	if len(packages) < 100 {
		t.Errorf("go list knows %d packages only", len(packages))
	}
}
