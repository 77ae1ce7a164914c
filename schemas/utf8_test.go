package schemas_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
)

func TestMendedRepliesSurviveJSON(t *testing.T) {
	m := &schemas.AssistantMessage{
		Content: schemas.Contents{
			schemas.Text{Text: "a\xffb"}, schemas.Thinking{Thinking: "\xc3("},
			schemas.ToolCall{ID: "t\xfe", Name: "echo", Arguments: json.RawMessage("{\"v\":\"\xff\"}")},
		},
		StopReason: schemas.StopStop, ErrorMessage: "\xff",
	}
	mended := schemas.ValidReply(m)
	raw, err := schemas.Marshal(mended)
	if err != nil {
		t.Fatal(err)
	}
	back, err := schemas.DecodeMessage(raw)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(schemas.Message(mended), back); d != "" {
		t.Errorf("(-mended +through JSON):\n%s", d)
	}
	if m.Content[0].(schemas.Text).Text != "a\xffb" {
		t.Error("the reply given was changed")
	}
	sound := &schemas.AssistantMessage{Content: schemas.Contents{schemas.Text{Text: "ä"}}, StopReason: schemas.StopStop}
	if schemas.ValidReply(sound) != sound {
		t.Error("a sound reply was copied")
	}
}
