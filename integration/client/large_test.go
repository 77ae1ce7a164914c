package client_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// A model calls a tool with arguments that are too large for a message. The call gets an error result, and the run
// continues.
func TestACallThatNoMessageHolds(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: scripted.New(
		scripted.Calls("", schemas.ToolCall{ID: "t1", Name: "echo",
			Arguments: json.RawMessage(`{"v":"` + strings.Repeat("x", 2<<20) + `"}`)}),
		scripted.Text("done"))})
	run, err := connect(t, s.URL).Session("s1").Prompt(deadline(t), schemas.Input{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := run.Wait(deadline(t)); err != nil || res.Text() != "done" {
		t.Fatalf("%+v, %.200v", res, err)
	}
	ends := system.DataOf[*schemas.ToolExecutionEnd](s.LogOf(t, "s1"))
	const why = "too large for a message"
	if len(ends) != 1 || !ends[0].IsError || !strings.Contains(ends[0].Result.Content.JoinText(), why) {
		t.Errorf("%.300v", ends)
	}
	s.Verify(t, "s1")
}
