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

// StartWorker serves tools on c under an id. A test that needs them waits with [registry.Toolbox.Wait]. The streams
// have to be there. stop stops it as SIGTERM does; the end of the test calls it too.
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
