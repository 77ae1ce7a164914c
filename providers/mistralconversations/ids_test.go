package mistralconversations_test

import (
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"go.uber.org/goleak"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/vendortest"
	"github.com/loopbus/loopbus/providers/mistralconversations"
	"github.com/loopbus/loopbus/schemas"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const reply = `data: {"id":"c1","choices":[{"delta":{"content":"Hi."},"finish_reason":"stop"}]}` +
	"\n\ndata: [DONE]\n\n"

// TestIDsStayDifferent sends calls whose ids have the same letters and digits, or none.
func TestIDsStayDifferent(t *testing.T) {
	ids := []string{"abc-DEF-123", "abcDEF123", "abc_DEF_123", "", "-", "é", "call_1|fc_2", "toolu_01", "toolu-01",
		"call_1|fc_2"}
	messages := schemas.Messages{}
	for i, id := range ids {
		messages = append(messages,
			&schemas.AssistantMessage{Model: "other", Content: schemas.Contents{schemas.ToolCall{ID: id, Name: fmt.Sprint(i)}},
				StopReason: schemas.StopToolUse},
			&schemas.ToolResultMessage{ToolCallID: id, ToolName: fmt.Sprint(i)})
	}
	made := make(map[string]string)
	for i, pair := range idsSent(t, messages) {
		call, result := pair[0], pair[1]
		if call != result || !regexp.MustCompile(`^[A-Za-z0-9]{9}$`).MatchString(call) {
			t.Errorf("%q became %q, its result's %q", ids[i], call, result)
		}
		if other, taken := made[call]; taken && other != ids[i] {
			t.Errorf("%q and %q both became %q", other, ids[i], call)
		}
		made[call] = ids[i]
	}
	if made["abcDEF123"] != "abc-DEF-123" {
		t.Errorf("abcDEF123 is %q, want the first that comes to it", made["abcDEF123"])
	}
}

// idsSent returns the ids of the calls and of their results in the request that is sent for messages.
func idsSent(t *testing.T, messages schemas.Messages) (pairs [][2]string) {
	vendor := vendortest.Serve(t, "text/event-stream", []byte(reply))
	m := vendortest.Final(t, t.Context(), mistralconversations.Stream, &providers.Request{
		Model:    &providers.Model{ID: "m", API: mistralconversations.API, Provider: "mistral", BaseURL: vendor.URL},
		Messages: messages, APIKey: "the-key-of-the-request", HTTP: vendortest.Client(t),
	})
	if m.StopReason != schemas.StopStop {
		t.Fatalf("%s %q", m.StopReason, m.ErrorMessage)
	}
	var body struct {
		Messages []struct {
			ToolCalls []struct {
				ID string `json:"id"`
			} `json:"tool_calls"`
			ToolCallID string `json:"tool_call_id"`
		} `json:"messages"`
	}
	if err := json.Unmarshal(vendor.Sent()[0].Body, &body); err != nil {
		t.Fatal(err)
	}
	for i := 0; i+1 < len(body.Messages); i += 2 {
		pairs = append(pairs, [2]string{body.Messages[i].ToolCalls[0].ID, body.Messages[i+1].ToolCallID})
	}
	return pairs
}
