package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// A state is indented, unless the spaces would make it many times what a hostile model has said.
func TestAStateIsIndentedUnlessItGrowsTooMuch(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for session, args := range map[string]string{
		"small": `{"a":[1,2]}`,
		"large": `{"a":` + strings.Repeat("[", 60) + strings.Repeat("1,", 50_000) + "1" + strings.Repeat("]", 60) + `}`,
	} {
		w.writer(session).append(&schemas.AgentStart{}, &schemas.TurnStart{},
			&schemas.MessageStart{MessageID: "m1", Role: schemas.RoleAssistant},
			&schemas.MessageEnd{MessageID: "m1", Message: schemas.AnyMessage{Message: &schemas.AssistantMessage{
				StopReason: schemas.StopToolUse,
				Content:    schemas.Contents{schemas.ToolCall{ID: "c", Name: "note", Arguments: json.RawMessage(args)}}}}})
		r := w.replay("state", session)
		if r.code != cli.StatusOK || !json.Valid([]byte(r.stdout)) || !strings.HasSuffix(r.stdout, "}\n") {
			t.Errorf("%s ends with %d: %.200s", session, r.code, r.stderr)
		}
		if got := strings.HasPrefix(r.stdout, "{\n  \""); got != (session == "small") || len(r.stdout) > 4*len(args)+8<<10 {
			t.Errorf("%s has %d bytes: %.200s", session, len(r.stdout), r.stdout)
		}
	}
}
