package inbox

import (
	"slices"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// TestOnlyWhatStartsNoRunYields checks what an abort may overtake: behind it, an input would start another run.
func TestOnlyWhatStartsNoRunYields(t *testing.T) {
	t.Parallel()
	var all []schemas.CommandKind
	for _, kind := range []schemas.CommandKind{schemas.CommandPrompt, schemas.CommandSteer, schemas.CommandFollowUp,
		schemas.CommandContinue, schemas.CommandCompact, schemas.CommandNavigate, schemas.CommandBranch,
		schemas.CommandSubagentPrompt, schemas.CommandSubagentResult, schemas.CommandAbort, schemas.CommandClearQueue,
		schemas.CommandApprove, schemas.CommandDeny, schemas.CommandToolResult, "unknown"} {
		if yields(kind) {
			all = append(all, kind)
		}
		if aborts(kind) != (kind == schemas.CommandAbort) {
			t.Errorf("%s aborts: %v", kind, aborts(kind))
		}
	}
	want := []schemas.CommandKind{schemas.CommandApprove, schemas.CommandDeny, schemas.CommandToolResult}
	if !slices.Equal(all, want) {
		t.Errorf("%v yield, want %v", all, want)
	}
}
