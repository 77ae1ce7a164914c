package schemas_test

import (
	"encoding/json"
	"fmt"
	"strings"
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

// A failed reply stays in the context of its session, so its error is no larger than anybody reads.
func TestTheErrorOfAReplyIsBounded(t *testing.T) {
	t.Parallel()
	for _, letter := range []string{"x", "ä", "€"} {
		whole := strings.Repeat(letter, 64<<10/len(letter))
		m := &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: whole}
		if schemas.ValidReply(m) != m {
			t.Errorf("an error of %d bytes is changed", len(whole))
		}
		m.ErrorMessage = strings.Repeat(letter, 1<<20)
		mended := schemas.ValidReply(m)
		head, end, _ := strings.Cut(mended.ErrorMessage, "… (")
		if len(mended.ErrorMessage) > 64<<10 || strings.Trim(head, letter) != "" || len(head) < 60<<10 ||
			end != fmt.Sprintf("%d bytes)", len(m.ErrorMessage)) {
			t.Errorf("an error of %d bytes becomes %.20q… (%d bytes) %q", len(m.ErrorMessage), head, len(head), end)
		}
		if schemas.ValidReply(mended) != mended {
			t.Error("it is cut again")
		}
	}
}
