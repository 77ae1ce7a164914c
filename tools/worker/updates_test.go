package worker_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// If a call publishes no update for BegunAfter, the worker publishes one empty update, before all others of the call.
// It publishes none for a call that ends sooner.
func TestSilentCallIsReportedAsStarted(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	release := make(chan struct{})
	tool := func(name string, execute func(context.Context, tools.Call) (schemas.ToolResult, error)) tools.Tool {
		return tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: name, Parameters: []byte(`{}`)}, Execute: execute}
	}
	serve := func(after time.Duration, list ...tools.Tool) {
		w, err := worker.New(worker.Options{ID: list[0].Name, NC: r.client, BegunAfter: after, Tools: list})
		if err != nil {
			t.Fatal(err)
		}
		r.serve(w.Run)
	}
	serve(time.Millisecond, tool("silent", func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		<-release
		call.Update(schemas.TextResult("half"))
		return schemas.TextResult("done"), nil
	}))
	serve(time.Hour, tool("brief", func(context.Context, tools.Call) (schemas.ToolResult, error) {
		return schemas.TextResult("brief"), nil
	}))
	updates := r.subscribe("agent.live.s1.update")
	r.call("brief", `{}`)
	r.wantResult("brief", false)
	r.call("silent", `{}`)
	begun := bustest.Within(t, updates)
	if got := string(begun.Data); !strings.Contains(got, `"content":[]`) || !strings.Contains(got, `"call":"c4"`) ||
		!strings.HasSuffix(begun.Header.Get("ce-id"), "/4.1") {
		t.Errorf("got %s %s", begun.Header.Get("ce-id"), got)
	}
	close(release)
	half := bustest.Within(t, updates)
	if !strings.Contains(string(half.Data), "half") || !strings.HasSuffix(half.Header.Get("ce-id"), "/4.2") {
		t.Errorf("got %s %s", half.Header.Get("ce-id"), half.Data)
	}
	r.wantResult("done", false)
	if n := len(updates); n != 0 {
		t.Errorf("%d more updates", n)
	}
}
