package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

func TestWithoutSignatures(t *testing.T) {
	t.Parallel()
	reply := &schemas.AssistantMessage{API: "openai-responses", ResponseID: "signed", Content: schemas.Contents{
		schemas.Thinking{Thinking: "kept 1", ThinkingSignature: "signed"},
		schemas.Thinking{Thinking: "hidden", ThinkingSignature: "signed", Redacted: true},
		schemas.Text{Text: "kept 2", TextSignature: "signed"},
		schemas.ToolCall{ID: "kept 3", Name: "ls", Arguments: []byte("{}"), ThoughtSignature: "signed"},
	}}
	before := jsonText(t, reply)
	all := schemas.Messages{reply, &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "kept 4"}}}}
	after := jsonText(t, all.WithoutSignatures())
	if strings.Contains(after, "signed") || strings.Contains(after, "hidden") || strings.Count(after, "kept") != 4 {
		t.Errorf("left is %s", after)
	}
	if jsonText(t, reply) != before {
		t.Error("the message itself was changed")
	}
}

func jsonText(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
