package tools_test

import (
	"context"
	"encoding/json"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/toolargs"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/write"
)

// A testCase is a recorded case.
type testCase struct {
	Name       string                     `json:"name"`
	Why        string                     `json:"why"`
	Tool       string                     `json:"tool"`
	Files      map[string]json.RawMessage `json:"files"`
	ManyFiles  manyFiles                  `json:"manyFiles"`
	Cwd        string                     `json:"cwd"`
	Args       json.RawMessage            `json:"args"`
	Calls      []testCall                 `json:"calls"`
	Parallel   bool                       `json:"parallel"`
	Abort      bool                       `json:"abort"`
	WaitMs     int                        `json:"waitMs"`
	Order      string                     `json:"order"`
	Candidates []string                   `json:"candidates"`
	Loose      bool                       `json:"loose"`
	Updates    bool                       `json:"updates"`
	Expected   json.RawMessage            `json:"expected"`
}

type testCall struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

type expectation struct {
	Results []any          `json:"results"`
	Changed map[string]any `json:"changed"`
	Spills  []any          `json:"spills,omitempty"`
}

// run plays the calls, one after the other, or all at once, started in order.
func (c *testCase) run(t *testing.T, s *stage) []outcome {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if c.Abort {
		cancel()
	}
	box, w := toolbox(t, s, c.Cwd)
	outcomes := make([]outcome, len(c.Calls))
	var running sync.WaitGroup
	for i, call := range c.Calls {
		args := json.RawMessage(s.fill(string(call.Args)))
		if !c.Parallel {
			outcomes[i] = runCall(ctx, box[call.Tool], args)
			continue
		}
		ended := make(chan struct{})
		queued := w.Queued()
		running.Go(func() {
			defer close(ended)
			outcomes[i] = runCall(ctx, box[call.Tool], args)
		})
		if call.Tool == write.Name || call.Tool == edit.Name {
			started(ended, func() bool { return w.Queued() > queued })
		}
	}
	running.Wait()
	return outcomes
}

// started returns when a call has taken its place in the queue for its file, or has ended.
func started(ended <-chan struct{}, queued func() bool) {
	for !queued() {
		select {
		case <-ended:
			return
		default:
			runtime.Gosched()
		}
	}
}

// runCall does with a call what an agent does: prepare, validate and coerce, execute.
func runCall(ctx context.Context, tool tools.Tool, args json.RawMessage) (o outcome) {
	fail := func(err error) outcome {
		return outcome{result: schemas.ErrorResult(err.Error()), isError: true}
	}
	schema, err := toolargs.Compile(tool.Parameters)
	if err != nil {
		return fail(err)
	}
	args = toolargs.Rewrite(ctx, tool.ArgumentRewrites, args)
	if args, err = schema.Validate(ctx, tool.Name, args); err != nil {
		return fail(err)
	}
	o.result, o.isError = tool.Run(ctx, tools.Call{Arguments: args}, func(r schemas.ToolResult) {
		o.updates = append(o.updates, r)
	})
	return o
}

// recorded writes a result as the recordings do.
func (c *testCase) recorded(t *testing.T, s *stage, o outcome, i int, want expectation) any {
	if c.Loose {
		return c.loose(o, i, want)
	}
	r := s.recordedResult(t, o.result, c.reorder)
	r["isError"] = o.isError
	if o.isError {
		delete(r, "details")
	}
	if c.Updates && len(o.updates) > 0 {
		r["updates"] = map[string]any{
			"first": s.recordedResult(t, o.updates[0], nil),
			"last":  s.recordedResult(t, o.updates[len(o.updates)-1], nil),
		}
	}
	return r
}

// loose takes the recorded result if both or neither are errors.
func (c *testCase) loose(o outcome, i int, want expectation) any {
	if i < len(want.Results) {
		if w, ok := want.Results[i].(map[string]any); ok && w["isError"] == o.isError {
			return w
		}
	}
	return map[string]any{"isError": o.isError, "content": o.result.Content.JoinText()}
}

// reorder takes chance out of a result whose lines come in any order, before anything in it is shortened.
func (c *testCase) reorder(r map[string]any) {
	if c.Order == "" {
		return
	}
	if details, ok := r["details"].(map[string]any); ok {
		if cut, ok := details["truncation"].(map[string]any); ok {
			delete(cut, "content")
		}
	}
	content, _ := r["content"].([]any)
	if len(content) == 0 {
		return
	}
	block, _ := content[0].(map[string]any)
	text, _ := block["text"].(string)
	lines, notice := text, ""
	if at := strings.LastIndex(text, "\n\n["); at >= 0 {
		lines, notice = text[:at], text[at:]
	}
	split := strings.Split(lines, "\n")
	if c.Order == "any" {
		block["text"] = sortedLines(split) + notice
		return
	}
	block["text"] = map[string]any{"lines": countKnown(split, c.Candidates), "notice": notice}
}
