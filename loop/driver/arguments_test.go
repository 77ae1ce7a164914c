package driver_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/loop/internal/looptest"
	"github.com/loopbus/loopbus/schemas"
)

// slowBox has a tool whose arguments take a second to validate, unless the validation is ended.
type slowBox struct{}

func (slowBox) Definitions(context.Context) ([]schemas.ToolDefinition, error) {
	return []schemas.ToolDefinition{{
		Name: "echo", Parameters: json.RawMessage(`{"properties":{"v":{"pattern":"(x?a?b?){300}(x?a?){400}c"}}}`),
	}}, nil
}

// startedLog calls a function when a call has begun: the driver validates its arguments next.
type startedLog struct {
	host.SessionLog
	started func()
}

func (l startedLog) Append(ctx context.Context, e schemas.Event) error {
	err := l.SessionLog.Append(ctx, e)
	if e.Type() == schemas.EventToolExecutionStart {
		l.started()
	}
	return err
}

func newSlowRig(t *testing.T, started func(r *looptest.Rig)) *looptest.Rig {
	call := schemas.ToolCall{ID: "t1", Name: "echo", Arguments: []byte(`{"v":"` + strings.Repeat("a", 1<<20) + `"}`)}
	model := looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage, error) {
		if len(req.Messages) > 1 {
			return looptest.Say("done"), nil
		}
		return &schemas.AssistantMessage{StopReason: schemas.StopToolUse, Content: schemas.Contents{call}}, nil
	})
	var r *looptest.Rig
	r = looptest.New(t, model, func(o *host.Options) {
		o.Toolbox = slowBox{}
		open := o.Open
		o.Open = func(ctx context.Context, session string) (host.SessionLog, error) {
			log, err := open(ctx, session)
			return startedLog{log, func() { started(r) }}, err
		}
	})
	return r
}

func resultText(r *looptest.Rig) string {
	r.T.Helper()
	for _, e := range r.Events() {
		if end, ok := e.Data.(*schemas.ToolExecutionEnd); ok {
			return end.Result.Content.JoinText()
		}
	}
	return ""
}

func TestArgumentsThatTakeTooLongToCheckAreRefused(t *testing.T) {
	t.Parallel()
	r := newSlowRig(t, func(*looptest.Rig) {})
	r.Deliver("p1", looptest.Prompt("go"))
	if text := resultText(r); !strings.Contains(text, "checking the arguments takes more than 1s") {
		t.Errorf("the call is answered with %.200q", text)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}

func TestCallsWithLongIDsAreNotExecuted(t *testing.T) {
	t.Parallel()
	id := strings.Repeat("ü", schemas.MaxToolCallID)
	r := looptest.New(t, looptest.ToolThenDone(id+"x", id))
	r.Deliver("p1", looptest.Prompt("go"))
	requests := r.Tools.TakeAll()
	if len(requests) != 1 || requests[0].ToolCallID != id {
		t.Errorf("%d requests, want the one whose id can be in an answer", len(requests))
	}
	if text := resultText(r); text != "The id of the call has more than 4096 characters" {
		t.Errorf("the call is answered with %.200q", text)
	}
}

func TestAbortEndsTheCheckOfArguments(t *testing.T) {
	t.Parallel()
	aborted := make(chan error, 1)
	r := newSlowRig(t, func(r *looptest.Rig) {
		go func() { aborted <- r.Host.Deliver(t.Context(), looptest.Command("a1", &schemas.Abort{}), nil) }()
	})
	r.Deliver("p1", looptest.Prompt("go"))
	if err := <-aborted; err != nil {
		t.Fatal(err)
	}
	if text := resultText(r); text != loop.TextAborted {
		t.Errorf("the call is answered with %.200q", text)
	}
	r.WantEnd(schemas.EndAbort)
}

// A runner that stops while it validates records nothing about the call, and the next runner validates again.
func TestStoppedDriverEndsTheCheckOfArguments(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	r := newSlowRig(t, func(*looptest.Rig) { stop() })
	if err := r.Host.Deliver(ctx, looptest.Command("p1", looptest.Prompt("go")), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("delivered: %v", err)
	}
	if n := r.Count(schemas.EventToolExecutionEnd); n != 0 {
		t.Errorf("the call has ended: %q", resultText(r))
	}
}

// A model names tools that do not exist; the answer has a long name in part.
func TestLongNamesAreNotRepeated(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"read_all":                 "Tool read_all not found",
		strings.Repeat("é", 30000): "Tool " + strings.Repeat("é", 128) + "… (60000 bytes) not found",
	} {
		r := looptest.New(t, looptest.ModelFunc(func(_ context.Context, req schemas.ModelRequest) (*schemas.AssistantMessage,
			error) {
			if len(req.Messages) > 1 {
				return looptest.Say("done"), nil
			}
			return &schemas.AssistantMessage{StopReason: schemas.StopToolUse, Content: schemas.Contents{
				schemas.ToolCall{ID: "t1", Name: name, Arguments: json.RawMessage(`{}`)}}}, nil
		}))
		r.Deliver("p1", looptest.Prompt("go"))
		if got := resultText(r); got != want {
			t.Errorf("result %.300q, want %.300q", got, want)
		}
	}
}

// A result that the context has no room for is answered with an error.
func TestResultsWithoutRoomAreLeftOut(t *testing.T) {
	t.Parallel()
	r := looptest.New(t, looptest.ToolThenDone("t1"))
	r.Deliver("p1", looptest.Prompt("go"))
	id, result := looptest.AnswerTo(r.Tools.Take(t), strings.Repeat("x", loop.MaxContextBytes))
	r.Deliver(id, result)
	if got := resultText(r); !strings.Contains(got, "is left out: the context has") {
		t.Errorf("result %.200q", got)
	}
	r.WantEnd(schemas.EndNoToolCalls)
}
