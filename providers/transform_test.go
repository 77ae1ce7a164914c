package providers_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

var (
	blind  = &providers.Model{API: "wire", Provider: "vendor", ID: "m1", Input: []string{providers.InputText}}
	seeing = &providers.Model{API: "wire", Provider: "vendor", ID: "m1",
		Input: []string{providers.InputText, providers.InputImage}}
)

func own(content ...schemas.Content) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{API: "wire", Provider: "vendor", Model: "m1", Content: content,
		StopReason: schemas.StopStop}
}

func foreign(content ...schemas.Content) *schemas.AssistantMessage {
	m := own(content...)
	m.Model = "m2"
	return m
}

func failed(content ...schemas.Content) *schemas.AssistantMessage {
	m := own(content...)
	m.StopReason = schemas.StopError
	return m
}

func user(content ...schemas.Content) *schemas.UserMessage {
	return &schemas.UserMessage{Content: content}
}

func say(text string) schemas.Content { return schemas.Text{Text: text} }

func ask(id string) schemas.Content {
	return schemas.ToolCall{ID: id, Name: "ls", Arguments: json.RawMessage("{}"), ThoughtSignature: "t"}
}

func unsigned(id string) schemas.Content {
	return schemas.ToolCall{ID: id, Name: "ls", Arguments: json.RawMessage("{}")}
}

func answer(id string, content ...schemas.Content) *schemas.ToolResultMessage {
	return &schemas.ToolResultMessage{ToolCallID: id, ToolName: "ls", Content: content}
}

func call(id, name string) schemas.Content {
	return schemas.ToolCall{ID: id, Name: name, Arguments: json.RawMessage("{}")}
}

func result(id, name string) *schemas.ToolResultMessage {
	m := answer(id)
	m.ToolName = name
	return m
}

func unanswered(id, name string) *schemas.ToolResultMessage {
	m := noAnswer(id)
	m.ToolName = name
	return m
}

func noAnswer(id string) *schemas.ToolResultMessage {
	m := answer(id, say(providers.TextNoResult))
	m.IsError = true
	return m
}

func TestTransform(t *testing.T) {
	t.Parallel()
	image := schemas.Image{Data: "aGk=", MimeType: "image/png"}
	thought := schemas.Thinking{Thinking: "hm", ThinkingSignature: "s"}
	hidden := schemas.Thinking{Thinking: "[hidden]", ThinkingSignature: "s", Redacted: true}
	signed := schemas.Thinking{ThinkingSignature: "s"}
	for name, tc := range map[string]struct {
		target   *providers.Model
		in, want schemas.Messages
	}{
		"images for the blind": {
			blind,
			schemas.Messages{user(image, image, say("and"), image), answer("c", image)},
			schemas.Messages{
				user(say(providers.TextImageOmitted), say("and"), say(providers.TextImageOmitted)),
				answer("c", say(providers.TextToolImageOmitted)),
			},
		},
		"images for the seeing": {seeing, schemas.Messages{user(image, say("a"))}, schemas.Messages{user(image, say("a"))}},
		"own words": {
			seeing,
			schemas.Messages{own(thought, hidden, signed, schemas.Thinking{Thinking: " "}, schemas.Thinking{Thinking: "x"},
				schemas.Text{Text: "a", TextSignature: "s"}, ask("c|1")), answer("c|1")},
			schemas.Messages{own(thought, hidden, signed, schemas.Thinking{Thinking: "x"},
				schemas.Text{Text: "a", TextSignature: "s"}, ask("c|1")), answer("c|1")},
		},
		"another model's words": {
			seeing,
			schemas.Messages{foreign(thought, hidden, signed, schemas.Text{Text: "a", TextSignature: "s"}, ask("c|1")),
				answer("c|1")},
			schemas.Messages{foreign(say("hm"), say("a"), unsigned("c_1")), answer("c_1")},
		},
		"calls with one id": { // of servers that count the calls of a reply
			seeing,
			schemas.Messages{foreign(ask("c0")), answer("c0", say("a")), foreign(ask("c0")), answer("c0", say("b")),
				own(ask("c0")), answer("c0", say("c")), foreign(ask("c0"), ask("")), answer("c0", say("d")), answer("")},
			schemas.Messages{foreign(unsigned("c0")), answer("c0", say("a")), foreign(unsigned("2_c0")),
				answer("2_c0", say("b")), own(ask("c0")), answer("c0", say("c")), foreign(unsigned("3_c0"), unsigned("2_")),
				answer("3_c0", say("d")), answer("2_")},
		},
		"ids that a vendor cannot tell apart": {
			seeing,
			schemas.Messages{foreign(ask("a.b"), ask("a_b")), answer("a_b"), answer("a.b")},
			schemas.Messages{foreign(unsigned("a_b"), unsigned("2_a_b")), answer("2_a_b"), answer("a_b")},
		},
		"names that no tool has": {
			seeing,
			schemas.Messages{foreign(call("c1", "bash<|x|>"), call("c2", "")), result("c1", "bash<|x|>"), own(call("c3", "a b")),
				result("c3", "a b")},
			schemas.Messages{foreign(call("c1", "bash__x__"), call("c2", "unnamed")), result("c1", "bash__x__"),
				unanswered("c2", "unnamed"), own(call("c3", "a b")), result("c3", "a b")},
		},
		"failed replies": {
			seeing,
			schemas.Messages{user(say("a")), failed(ask("c")), answer("c"), user(say("b"))},
			schemas.Messages{user(say("a")), answer("c"), user(say("b"))},
		},
		"calls without a result": {
			seeing,
			schemas.Messages{own(ask("c1"), ask("c2")), answer("c2"), user(say("b")), own(ask("c3")), failed(), own(ask("c4"))},
			schemas.Messages{own(ask("c1"), ask("c2")), answer("c2"), noAnswer("c1"), user(say("b")), own(ask("c3")),
				noAnswer("c3"), own(ask("c4")), noAnswer("c4")},
		},
		"halves and other roles": {
			seeing,
			schemas.Messages{&schemas.CustomMessage{Role: "note"}, user(say("a\xed\xa0\xbdb")), own(say("x\xed\xb9\x88")),
				answer("c", say("\xed\xa0\xbd\xed\xb9\x88"))},
			schemas.Messages{user(say("ab")), own(say("x")), answer("c", say("🙈"))},
		},
	} {
		t.Run(name, func(t *testing.T) {
			before := jsonText(tc.in)
			got := providers.Transform(tc.in, tc.target,
				func(id string, _ *schemas.AssistantMessage) string { return providers.CleanID(id, 64) })
			if d := cmp.Diff(tc.want, got, cmpopts.EquateEmpty()); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
			if after := jsonText(tc.in); after != before {
				t.Errorf("what was given has changed: %s", after)
			}
		})
	}
}

func TestObjectOf(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{"": "{}", " null": "{}", ` {"a":1}`: ` {"a":1}`,
		`["a"]`: `{"value":["a"]}`, `"a" `: `{"value":"a"}`, "3": `{"value":3}`} {
		if got := providers.ObjectOf(json.RawMessage(arguments)); string(got) != want {
			t.Errorf("%q: %s, want %s", arguments, got, want)
		}
	}
}

func TestCleanID(t *testing.T) {
	t.Parallel()
	for id, want := range map[string]string{"call_1|fc": "call_1_fc", "ü🙈-": "___-", "abcdefghijkl": "abcdefghij",
		"": ""} {
		if got := providers.CleanID(id, 10); got != want {
			t.Errorf("%q: %q, want %q", id, got, want)
		}
	}
}
