package system

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// Echo is a tool that answers with its arguments.
var Echo = tools.Tool{
	ToolDefinition: schemas.ToolDefinition{
		Name: "echo", Parameters: json.RawMessage(`{"type":"object","properties":{"v":{"type":"string"}}}`),
	},
	Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		return schemas.TextResult(string(call.Arguments)), nil
	},
}

// StartWorker starts a worker that serves tools on c under an id. The streams have to exist. Wait for the tools with
// [registry.Toolbox.Wait]. stop stops the worker as SIGTERM does; it is also called when the test ends.
func StartWorker(tb testing.TB, c *bus.Conn, id string, served ...tools.Tool) (stop func()) {
	tb.Helper()
	w, err := worker.New(worker.Options{
		ID: id, NC: c.NATS(), JS: c.JetStream(), Tools: served, Concurrency: 64,
	})
	if err != nil {
		tb.Fatal(err)
	}
	return Serve(tb, w.Run)
}
