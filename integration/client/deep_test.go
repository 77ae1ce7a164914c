package client_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// deep is valid JSON that exceeds the nesting limit of parsers with some levels around it.
func deep() string {
	const levels = 9998
	return `{"v":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + `}`
}

// A model and a tool return JSON nested as deep as parsers allow. The session continues, and its log can be read. The
// worker leaves the details of the result out: the session would reject it and wait forever.
func TestDeepJSONDamagesNoLog(t *testing.T) {
	t.Parallel()
	details := tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "details", Parameters: json.RawMessage(`{"type":"object"}`)},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			r := schemas.TextResult("a result")
			r.Details = json.RawMessage(deep())
			return r, nil
		},
	}
	s := system.StartAlone(t, system.Options{Tools: []tools.Tool{details}, Model: scripted.New(
		scripted.Calls("", schemas.ToolCall{ID: "t1", Name: "echo", Arguments: json.RawMessage(deep())}),
		scripted.Calls("", schemas.ToolCall{ID: "t2", Name: "details", Arguments: json.RawMessage(`{}`)}),
		scripted.Text("done"))})
	run, err := connect(t, s.URL).Session("s1").Prompt(deadline(t), schemas.Input{Text: "go"})
	if err != nil {
		t.Fatal(err)
	}
	res, err := run.Wait(deadline(t))
	if err != nil || res.Text() != "done" {
		t.Fatalf("%+v, %.200v", res, err)
	}
	s.Verify(t, "s1")
	results := system.DataOf[*schemas.ToolExecutionEnd](s.LogOf(t, "s1"))
	if len(results) != 2 || results[1].IsError || results[1].Result.Details != nil ||
		!strings.HasPrefix(results[1].Result.Content.JoinText(), "a result") {
		t.Errorf("%.300v", results)
	}
}
