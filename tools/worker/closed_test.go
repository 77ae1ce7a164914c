package worker_test

import (
	"context"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// A worker does not retry to store an answer after its program has closed the connection: it returns as soon as its
// context ends, and does not wait for StopTimeout.
func TestWorkerStopsAnsweringOnClosedConnection(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	closed := make(chan struct{})
	tool := tools.Tool{ToolDefinition: schemas.ToolDefinition{Name: "last"},
		Execute: func(context.Context, tools.Call) (schemas.ToolResult, error) {
			r.client.Close()
			close(closed)
			return schemas.TextResult("not delivered"), nil
		}}
	announced := make(chan struct{})
	w, err := worker.New(worker.Options{ID: "w1", NC: r.client, Tools: []tools.Tool{tool}, StopTimeout: time.Minute,
		Announced: func() { close(announced) }})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx) // returns an error: the announcements cannot be withdrawn
	}()
	defer stop()
	<-announced
	r.call("last", `{}`)
	<-closed
	stop()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Error("the worker still retries to store the answer")
		<-ended
	}
}
