package schemas_test

import (
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

// What a client sends is checked against a schema at about what its size costs: a list of a hundred thousand mistakes
// must not take gigabytes, nor minutes, before it is refused. The test counts what is allocated, so it is not parallel.
func TestMistakesCostWhatTheyAreLong(t *testing.T) {
	const most, values = schemas.MaxInputBytes, "more than 524288 values"
	list := func(head, item, tail string, size int) []byte {
		n := (size - len(head) - len(tail)) / (len(item) + 1)
		return []byte(head + strings.TrimSuffix(strings.Repeat(item+",", n), ",") + tail)
	}
	for _, c := range []struct {
		name             string
		kind             schemas.CommandKind
		head, item, tail string
		want             string
	}{
		{"no messages", schemas.CommandPrompt, `{"messages":[`, `{}`, `]}`, "/messages: maximum 256 items required, but"},
		{"numbers for messages", schemas.CommandSteer, `{"messages":[`, `1`, `]}`, "maximum 256 items"},
		{"messages", schemas.CommandPrompt, `{"messages":[`, `{"role":"user","content":"x"}`, `]}`, "maximum 256 items"},
		{"no blocks", schemas.CommandPrompt, `{"messages":[{"role":"user","content":[`, `{}`, `]}]}`, "more than 10000"},
		{"blocks", schemas.CommandPrompt, `{"messages":[{"role":"user","content":[`, `{"type":"text","text":""}`, `]}]}`,
			"more than 10000"},
		{"no images", schemas.CommandFollowUp, `{"text":"x","images":[`, `{}`, `]}`, "/images"},
		{"no results", schemas.CommandToolResult, `{"call":"c1","toolCallId":"t","toolName":"t","result":{"content":[`, `{}`,
			`]}}`, "more than 10000"},
		{"nothing that a schema looks at", schemas.CommandPrompt, `{"text":"x","unknown":[`, `{}`, `]}`, "values"},
	} {
		for _, size := range []int{512 << 10, most} {
			if size < most && c.want == "values" {
				continue
			}
			payload := list(c.head, c.item, c.tail, size)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := schemas.ValidateCommand(c.kind, payload)
			runtime.ReadMemStats(&after)
			var invalid *schemas.ValidationError
			if !errors.As(err, &invalid) || !strings.Contains(err.Error(), c.want) && !strings.HasSuffix(err.Error(), values) {
				t.Errorf("%s: %.200v", c.name, err)
			}
			if got := after.TotalAlloc - before.TotalAlloc; got > 128<<20 {
				t.Errorf("%s: %d MiB were allocated for %d KiB", c.name, got>>20, len(payload)>>10)
			}
		}
	}
}

// What is at the bounds is taken as it was.
func TestManyBlocksAreAPrompt(t *testing.T) {
	t.Parallel()
	blocks := func(n int) []byte {
		return []byte(`{"messages":[{"role":"user","content":[` +
			strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"x"},`, n), ",") + `]}]}`)
	}
	if err := schemas.ValidateCommand(schemas.CommandPrompt, blocks(9_999)); err != nil {
		t.Error(err)
	}
	if err := schemas.ValidateCommand(schemas.CommandPrompt, blocks(10_000)); err == nil {
		t.Error("there is no end")
	}
	details := []byte(`{"call":"c1","toolCallId":"t","toolName":"t","result":{"content":[],"details":[` +
		strings.TrimSuffix(strings.Repeat("1,", 250_000), ",") + `]}}`)
	err := schemas.ValidateCommand(schemas.CommandToolResult, details)
	if err != nil && strings.Contains(err.Error(), "more than") {
		t.Errorf("details, which are anything: %v", err)
	}
}

// Decoded, a payload may take a hundred times its size, and a runner may get hundreds at once. The test takes the room
// of all others, so it is not parallel.
func TestLargePayloadsTakeTurns(t *testing.T) {
	large := []byte(`{"text":"x","unknown":[0` + strings.Repeat(",0", 10_000) + `]}`) // by a little: it takes no time
	release := schemas.TakeDecodeRoom()
	done := make(chan error, 1)
	go func() { done <- schemas.ValidateCommand(schemas.CommandPrompt, large) }()
	if err := schemas.ValidateCommand(schemas.CommandPrompt, []byte(`{"text":"x"}`)); err != nil {
		t.Errorf("a small one: %v", err)
	}
	select {
	case err := <-done:
		release()
		t.Fatalf("while others have the room: %.200v", err)
	case <-time.After(50 * time.Millisecond):
	}
	release()
	if err := <-done; err != nil {
		t.Errorf("afterwards: %.200v", err)
	}
}
