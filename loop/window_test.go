package loop_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// The window counts calls of each tool, and the bytes of all arguments. The first call is always in flight.
func TestBeyondWindow(t *testing.T) {
	t.Parallel()
	const kib = 1 << 10
	call := func(tool string, size int) loop.Call {
		return loop.Call{ToolCall: schemas.ToolCall{
			Name: tool, Arguments: json.RawMessage(`"` + strings.Repeat("x", size) + `"`),
		}}
	}
	ended := call("a", 900*kib)
	ended.End = new(schemas.ToolExecutionEnd)
	for name, c := range map[string]struct {
		calls []loop.Call
		want  []bool
	}{
		"calls": {
			[]loop.Call{call("a", 1), call("a", 1), call("b", 1), call("a", 1)},
			[]bool{false, false, false, true},
		},
		"bytes":               {[]loop.Call{call("a", 600*kib), call("b", 600*kib), call("c", 1)}, []bool{false, true, true}},
		"the first is large":  {[]loop.Call{call("a", 2000*kib), call("b", 1)}, []bool{false, true}},
		"the first has ended": {[]loop.Call{ended, call("b", 900*kib), call("c", 200*kib)}, []bool{false, false, true}},
	} {
		s := &loop.State{Run: &loop.Run{Turn: &loop.Turn{Calls: c.calls}}}
		if got := s.BeyondWindow(2); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
		if got := s.BeyondWindow(0); slices.Contains(got, true) {
			t.Errorf("%s without a window: %v", name, got)
		}
	}
}
