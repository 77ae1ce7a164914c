package assemble_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type playFunc = func(ctx context.Context, s *assemble.Stream) error

func request() *providers.Request {
	return &providers.Request{
		Model: &providers.Model{
			API: "wire", Provider: "vendor", ID: "m1", Headers: map[string]string{"X-Api-Key": "header-secret-1"},
			Cost: providers.Rates{Input: 1e6, Output: 2e6},
		},
		APIKey: "sk-secret/key+1",
		Now:    func() time.Time { return time.UnixMilli(1234) },
	}
}

// collect reads the whole stream. The test fails unless the stream ends with exactly one terminal event.
func collect(t *testing.T, ctx context.Context, req *providers.Request, play playFunc) (events []schemas.StreamEvent,
	final *schemas.AssistantMessage) {
	t.Helper()
	for e, err := range assemble.Run(ctx, req, play) {
		if err != nil || final != nil {
			t.Fatalf("after %d events: %+v, %v", len(events), e, err)
		}
		events = append(events, e)
		if e.Terminal() {
			final = e.Message
		}
	}
	if final == nil {
		t.Fatalf("no terminal event: %s", names(events))
	}
	return events, final
}

// names formats events in short: type, index and content.
func names(events []schemas.StreamEvent) string {
	var list []string
	for _, e := range events {
		text := fmt.Sprintf("%s %d %s%s%s", e.Type, e.ContentIndex, e.Delta, e.Content, e.Reason)
		if e.ToolCall != nil {
			text += fmt.Sprintf("%s/%s%s", e.ToolCall.ID, e.ToolCall.Name, e.ToolCall.Arguments)
		}
		list = append(list, strings.TrimSpace(text))
	}
	return strings.Join(list, "; ")
}
