//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// counterConfig is the configuration of a counting toolworker.
type counterConfig struct {
	ID    string
	URL   string
	Count string // file that gets a line for each execution: the idempotency key
}

// The counting tools have the names of tools that the model rehearsal knows: it turns lines of a prompt into calls of
// them.
const (
	toolIdempotent = "write"
	toolReadOnly   = "find"
)

const (
	counterStop  = 5 * time.Second
	counterSlots = 8
)

// serveCounting serves tools that count their executions until ctx ends.
func serveCounting(ctx context.Context, c counterConfig) error {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	dial, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	conn, err := bus.Connect(dial, bus.ConnOptions{URL: c.URL, Name: c.ID, Logger: log})
	if err != nil {
		return err
	}
	defer conn.Close()
	w, err := worker.New(worker.Options{
		ID: c.ID, NC: conn.NATS(), JS: conn.JetStream(), Subjects: conn.Subjects(),
		Concurrency: counterSlots, StopTimeout: counterStop, Logger: log,
		Tools: []tools.Tool{
			countingTool(toolIdempotent, schemas.EffectIdempotent, c.Count, "content"),
			countingTool(toolReadOnly, schemas.EffectReadOnly, c.Count, "pattern"),
		},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

// countingTool appends the key of each call to file and then works for the number of milliseconds in an argument.
func countingTool(name string, effect schemas.Effect, file, argument string) tools.Tool {
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: name, Effect: effect},
		Execute: func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
			var args map[string]string
			if err := json.Unmarshal(call.Arguments, &args); err != nil {
				return schemas.ToolResult{}, err
			}
			ms, err := strconv.Atoi(args[argument])
			if err != nil {
				return schemas.ToolResult{}, err
			}
			if err := countOne(file, call.Session+"/"+string(call.Key)); err != nil {
				return schemas.ToolResult{}, err
			}
			pause := time.NewTimer(time.Duration(ms) * time.Millisecond)
			defer pause.Stop()
			select {
			case <-pause.C:
				return schemas.TextResult("counted"), nil
			case <-ctx.Done():
				return schemas.ToolResult{}, tools.Interrupted(ctx)
			}
		},
	}
}

// countOne appends a line in one write, so that lines of several processes do not mix.
func countOne(file, key string) error {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = fmt.Fprintln(f, key)
	return err
}
