package inbox

import (
	"slices"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// TestOnlyWhatStartsNoRunYields checks what an abort may overtake: behind it, an input would start another run. What it
// may not is stored first, but for what is stored elsewhere.
func TestOnlyWhatStartsNoRunYields(t *testing.T) {
	t.Parallel()
	var all, inherit []schemas.CommandKind
	for _, kind := range []schemas.CommandKind{schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp,
		schemas.CommandContinue, schemas.CommandCompact, schemas.CommandNavigate, schemas.CommandBranch,
		schemas.CommandSubagentPrompt, schemas.CommandSubagentResult, schemas.CommandAbort, schemas.CommandClearQueue,
		schemas.CommandApprove, schemas.CommandDeny, schemas.CommandToolResult, schemas.CommandTimer, "unknown"} {
		if yields(kind) {
			all = append(all, kind)
		}
		if inherits(kind) {
			inherit = append(inherit, kind)
		}
		if aborts(kind) != (kind == schemas.CommandAbort) {
			t.Errorf("%s aborts: %v", kind, aborts(kind))
		}
	}
	want := []schemas.CommandKind{schemas.CommandSubagentResult, schemas.CommandApprove, schemas.CommandDeny,
		schemas.CommandToolResult, schemas.CommandTimer}
	if !slices.Equal(all, want) {
		t.Errorf("%v yield, want %v", all, want)
	}
	want = []schemas.CommandKind{schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp,
		schemas.CommandContinue, schemas.CommandCompact, schemas.CommandNavigate, schemas.CommandClearQueue, "unknown"}
	if !slices.Equal(inherit, want) {
		t.Errorf("%v inherit the priority of an abort, want %v", inherit, want)
	}
}
