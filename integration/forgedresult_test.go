package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// TestAResultNeedsTheNonceOfItsCall has a client that may call the tool echo. It uses the subjects of the calls of a
// session that waits for another tool, so the worker of echo answers in that session's inbox. The client does not know
// the nonce of the session's call.
func TestAResultNeedsTheNonceOfItsCall(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]func(call string, n int) any{
		"a call": func(call string, n int) any {
			return map[string]any{"session": "s1", "runId": "r1", "turnId": "t1", "call": call, "toolCallId": "x",
				"toolName": "echo", "arguments": map[string]any{"text": "forged"}, "startSeq": n}
		},
		"no call": func(string, int) any { return "no request" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := system.StartAlone(t, system.Options{Model: scripted.New(
				scripted.Calls("", schemas.ToolCall{Name: "search"}), scripted.Text("done"))})
			gate := make(chan struct{})
			system.StartWorker(t, s.Client, "w-search", searchTool("", "", gate))
			untilAnnounced(t, s, 1)
			system.Serve(t, func(ctx context.Context) error {
				<-gate // the call is running
				defer func() { <-gate }()
				for n := 1; n < 30; n++ {
					call := fmt.Sprintf("c%d", n)
					data, err := json.Marshal(request(call, n))
					if err != nil {
						return err
					}
					m := &nats.Msg{Subject: "agent.tool.echo.s1." + call, Data: data,
						Header: nats.Header{"Nats-Msg-Id": {"s1/" + call}}}
					if _, err := s.Client.JetStream().PublishMsg(ctx, m); err != nil {
						return err
					}
				}
				system.Eventually(t, "only the call of search waits", func() bool {
					return s.Messages(t, schemas.StreamTools, "") == 1
				})
				s.EmptyInbox(t) // the session has had all answers
				return nil
			})
			ends := system.DataOf[*schemas.ToolExecutionEnd](s.Prompted(t, "s1", "go", 1))
			if len(ends) != 1 || ends[0].Worker != "w-search" || ends[0].IsError {
				t.Errorf("the call of search ended with %+v", ends)
			}
		})
	}
}
