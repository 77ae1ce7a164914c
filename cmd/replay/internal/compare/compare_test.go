package compare_test

import (
	"encoding/json"
	"iter"
	"testing"
	"time"

	"github.com/loopbus/loopbus/cmd/replay/internal/compare"
	"github.com/loopbus/loopbus/schemas"
)

// log yields events one second apart.
func log(all ...schemas.EventData) iter.Seq2[schemas.Event, error] {
	return func(yield func(schemas.Event, error) bool) {
		for i, data := range all {
			e := schemas.Event{Session: "s", Seq: uint64(i + 1), Time: time.Unix(int64(i), 0), Data: data}
			if !yield(e, nil) {
				return
			}
		}
	}
}

func read(t *testing.T, session string, all ...schemas.EventData) *compare.Conversation {
	t.Helper()
	c, err := compare.Read(session, log(all...))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func whole(m schemas.Message) schemas.EventData {
	return &schemas.TranscriptReplaced{Messages: schemas.Messages{m}}
}

func text(s string) schemas.Contents { return schemas.Contents{schemas.Text{Text: s}} }

func calls(args string) *schemas.AssistantMessage {
	return &schemas.AssistantMessage{Content: schemas.Contents{schemas.Thinking{Thinking: args}, schemas.ToolCall{
		ID: args, Name: "t", Arguments: json.RawMessage(args)}}, StopReason: schemas.StopToolUse}
}

// TestWhatCounts holds which members of a message make it another one.
func TestWhatCounts(t *testing.T) {
	t.Parallel()
	image := func(data string) *schemas.UserMessage {
		return &schemas.UserMessage{Content: schemas.Contents{schemas.Image{MimeType: "image/png", Data: data}}}
	}
	custom := func(raw string) *schemas.CustomMessage {
		return &schemas.CustomMessage{Role: "custom", Raw: json.RawMessage(raw)}
	}
	for _, c := range []struct {
		name string
		a, b schemas.Message
		want string
	}{
		{"times", &schemas.UserMessage{Content: text("x"), Timestamp: 1},
			&schemas.UserMessage{Content: text("x"), Timestamp: 2}, ""},
		{"texts", &schemas.UserMessage{Content: text("x")}, &schemas.UserMessage{Content: text("y")},
			"its text is another one"},
		{"pictures", image("AAAA"), image("BBBB"), "its pictures are others"},
		{"roles", &schemas.UserMessage{Content: text("x")}, &schemas.AssistantMessage{Content: text("x")},
			"one is of the user, the other of the assistant"},
		{"models, usage and thoughts", &schemas.AssistantMessage{Model: "m1", Usage: schemas.Usage{Input: 1},
			Content: append(schemas.Contents{schemas.Thinking{Thinking: "hm"}}, text("x")...)},
			&schemas.AssistantMessage{Model: "m2", Content: text("x")}, ""},
		{"order of arguments", calls(`{"a":1,"b":[2]}`), calls(`{"b":[2], "a":1}`), ""},
		{"arguments", calls(`{"a":1}`), calls(`{"a":2}`), "its calls are others"},
		{"results", &schemas.ToolResultMessage{ToolCallID: "1", ToolName: "t", Content: text("x")},
			&schemas.ToolResultMessage{ToolCallID: "2", ToolName: "t", Content: text("x")}, ""},
		{"errors", &schemas.ToolResultMessage{ToolName: "t", Content: text("x")},
			&schemas.ToolResultMessage{ToolName: "t", Content: text("x"), IsError: true}, "it has not failed in the same way"},
		{"tools", &schemas.ToolResultMessage{ToolName: "t"}, &schemas.ToolResultMessage{ToolName: "u"},
			"its tool is another one"},
		{"failures", &schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: "a"},
			&schemas.AssistantMessage{StopReason: schemas.StopError, ErrorMessage: "b"}, "it has not failed in the same way"},
		{"custom times", custom(`{"role":"custom","content":"x","timestamp":1}`),
			custom(`{"timestamp":2,"role":"custom","content":"x"}`), ""},
		{"custom contents", custom(`{"role":"custom","content":"x"}`), custom(`{"role":"custom","content":"y"}`),
			"its content is another one"},
	} {
		a, b := read(t, "a", whole(c.a)), read(t, "b", whole(c.b))
		if d := compare.Compare(a, b); d.What != c.want || d.Same() != (c.want == "") {
			t.Errorf("%s: %+v, want %q", c.name, d, c.want)
		}
	}
	one := &schemas.UserMessage{Content: text("x")}
	if d := compare.Compare(read(t, "a", whole(one)), read(t, "b")); d.What != "b ends" || d.Common != 0 {
		t.Errorf("an empty one: %+v", d)
	}
}

// message is a message of a run.
func message(id, said string) schemas.EventData {
	return &schemas.MessageEnd{MessageID: id,
		Message: schemas.AnyMessage{Message: &schemas.UserMessage{Content: text(said)}}}
}

// TestCompactionsDoNotCount holds that a session that was compacted is compared by what was said, and a branch from
// behind a compaction with what it is a copy of.
func TestCompactionsDoNotCount(t *testing.T) {
	t.Parallel()
	compaction := &schemas.CompactionEnd{Summary: "one and two", FirstKeptEntryID: "m2", TokensBefore: 5}
	plain := []schemas.EventData{message("m1", "one"), message("m2", "two"), message("m3", "three")}
	compacted := []schemas.EventData{message("m1", "one"), message("m2", "two"), compaction, message("m4", "three")}
	if d := compare.Compare(read(t, "a", plain...), read(t, "b", compacted...)); !d.Same() || d.Common != 3 {
		t.Errorf("%+v", d)
	}
	of := read(t, "a", append(compacted, message("m5", "four"))...)
	copied := &schemas.SessionBranched{Session: "a", Seq: 4}
	for _, m := range of.Items {
		if m.ID == "e3" || m.ID == "m2" || m.ID == "m4" {
			copied.Messages = append(copied.Messages, m.Message)
		}
	}
	// The summary comes first.
	copied.Messages = schemas.Messages{copied.Messages[1], copied.Messages[0], copied.Messages[2]}
	branch := read(t, "b", copied, message("m2", "another"))
	d := compare.Compare(of, branch)
	if d.Common != 3 || d.What != "its text is another one" || of.Items[d.Common].ID != "m5" {
		t.Errorf("%+v, next %+v", d, of.Items[d.Common:])
	}
}

// TestOneIdTwice holds that a log in which messages have the same id, as an archive of somebody else's may say, is read
// to its end.
func TestOneIdTwice(t *testing.T) {
	t.Parallel()
	for name, all := range map[string][]schemas.EventData{
		"below itself":            {message("m1", "one"), message("m1", "two")},
		"in a circle":             {message("m1", "one"), message("m2", "two"), message("m1", "three")},
		"without an id":           {message("", "one"), message("", "two")},
		"below what is not there": {&schemas.Leaf{LeafID: "e9"}, message("m1", "two")},
	} {
		if c := read(t, name, all...); len(c.Items) > len(all) || len(c.Items) == 0 {
			t.Errorf("%s: %d messages", name, len(c.Items))
		}
	}
}
