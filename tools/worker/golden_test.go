package worker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// golden is a message that an older version has sent, from the testdata of package bus/codec.
type golden struct {
	About   string      `json:"about"`
	Subject string      `json:"subject"`
	Header  nats.Header `json:"header"`
	Payload string      `json:"payload"`
}

// goldenRequests returns the tool calls that runners of all versions have sent.
func goldenRequests(t *testing.T) (requests []golden) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "bus", "codec", "testdata", "golden", "*", "*.ndjson"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(raw) {
			var m golden
			if err := json.Unmarshal(line, &m); err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if _, _, _, err := (schemas.Subjects{}).ParseTool(m.Subject); err == nil {
				requests = append(requests, m)
			}
		}
	}
	if len(requests) == 0 {
		t.Fatal("no golden requests found")
	}
	return requests
}

// A worker of this version serves runners of every version: it executes their calls, and they can read its answers and
// updates.
func TestServesOlderRunners(t *testing.T) {
	t.Parallel()
	for _, m := range goldenRequests(t) {
		t.Run(m.About, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			queue, session, call, err := schemas.Subjects{}.ParseTool(m.Subject)
			if err != nil {
				t.Fatal(err)
			}
			var sent struct {
				ToolCallID string          `json:"toolCallId"`
				Arguments  json.RawMessage `json:"arguments"`
				StartSeq   uint64          `json:"startSeq"`
			}
			if err := json.Unmarshal([]byte(m.Payload), &sent); err != nil {
				t.Fatal(err)
			}
			updates := r.subscribe("agent.live." + session + ".update")
			if _, err := r.js.PublishMsg(t.Context(), &nats.Msg{Subject: m.Subject, Header: m.Header,
				Data: []byte(m.Payload)}); err != nil {
				t.Fatal(err)
			}
			r.serve(func(ctx context.Context) error { return worker.Serve(ctx, r.client, echo(queue)) })
			got := r.result()
			if got.IsError || string(got.Call) != call || got.ToolCallID != sent.ToolCallID || got.ToolName != queue.Tool ||
				got.Result.Content.JoinText() != string(sent.Arguments) {
				t.Errorf("answer %+v", got)
			}
			u := bustest.Within(t, updates)
			update, err := schemas.DecodeUpdate(u.Header, u.Data)
			if err != nil || update.Event != sent.StartSeq || update.N != 1 {
				t.Errorf("update %+v, %v", update, err)
			}
			r.empty()
		})
	}
}

// echo returns a tool of the queue that answers with its arguments.
func echo(queue schemas.ToolQueue) tools.Tool {
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: queue.Tool, Version: queue.Version, Workspace: queue.Workspace},
		Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
			call.Update(schemas.TextResult("begun"))
			return schemas.TextResult(string(call.Arguments)), nil
		},
	}
}
