package schemas_test

import (
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// What is no profile must not pass for one that allows everything. A member of a later version does no harm beside
// others.
func TestWhatIsNoProfileIsNotAnEmptyOne(t *testing.T) {
	t.Parallel()
	for _, payload := range []string{`{}`, `{"description":"x"}`, `{"tools":["read"],"later":1}`} {
		if _, err := schemas.ParseProfile([]byte(payload)); err != nil {
			t.Errorf("%s: %v", payload, err)
		}
	}
	for _, payload := range []string{"", "null", "[]", `{"stream":"AGENT_CMD","seq":1}`,
		`{"type":"message_update","delta":"x"}`, `{"aproval":{"tools":["*"]}}`} {
		if p, err := schemas.ParseProfile([]byte(payload)); err == nil {
			t.Errorf("%s is the profile %+v", payload, p)
		}
	}
}

// Approval for what no tool can be called would be approval for nothing. An event with such a name, of a run before, is
// still read.
func TestApprovalsOfAProfileAreForNamesOfTools(t *testing.T) {
	t.Parallel()
	for _, item := range []string{"*", "bash", "mcp-x_Y"} {
		p, err := schemas.ParseProfile([]byte(`{"approval":{"tools":["` + item + `"],"timeoutMs":5}}`))
		if err != nil || !p.Approval.Asks(item) || p.Approval.TimeoutMs != 5 {
			t.Errorf("%s: %+v, %v", item, p.Approval, err)
		}
	}
	for _, item := range []string{"ba*", "Bash!", "**", "", "a b", strings.Repeat("a", 65)} {
		_, err := schemas.ParseProfile([]byte(`{"approval":{"tools":["bash","` + item + `"]}}`))
		if err == nil || !strings.Contains(err.Error(), "approval/tools/1: ") {
			t.Errorf("%s: %v", item, err)
		}
	}
	if _, err := schemas.ParseProfile([]byte(`{"approval":{"timeoutMs":-1}}`)); err == nil {
		t.Error("a time limit below 0 is taken")
	}
	old := &schemas.AgentStart{Config: &schemas.RunConfig{Approval: schemas.ApprovalPolicy{Tools: []string{"ba*"}},
		Model: schemas.ModelRef{Provider: "p", ID: "m"}}}
	raw, err := schemas.AppendData(nil, old)
	if err == nil {
		err = schemas.ValidateEvent(schemas.EventAgentStart, raw)
	}
	if err != nil {
		t.Errorf("an event: %v", err)
	}
}
