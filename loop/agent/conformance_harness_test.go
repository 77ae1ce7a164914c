package agent_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestConformanceHarness shows that what plays the scenarios would notice.
func TestConformanceHarness(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		scenario string
		want     []string // texts of the error
	}{
		"a barrier that never opens": {
			`{"name":"stuck","level":"loop","do":[{"do":"prompt","text":"go"}],
			 "llm":[{"events":[{"type":"start"},{"wait":{"type":"turn_end","nth":3}}]}]}`,
			[]string{"stuck", `waiting for turn_end toolCallId="" role="" nth=3`, `5 {"message":`},
		},
		"a response that is not used": {
			`{"name":"unused","level":"agent","do":[{"do":"abort"}],
			 "llm":[{"events":[{"type":"start"},{"end":true}],"message":{"content":[],"stopReason":"stop"}}]}`,
			[]string{"0 model calls for 1 responses"},
		},
		"a call that has no response": {
			`{"name":"missing","level":"agent","do":[{"do":"prompt","text":"go"}],"llm":[]}`,
			[]string{"1 model calls for 0 responses"},
		},
		"an injection that never happens": {
			`{"name":"never","level":"agent","do":[{"do":"abort"}],"llm":[],
			 "inject":[{"on":{"type":"agent_start"},"do":[{"do":"abort"}]}]}`,
			[]string{"inject pattern never matched: agent_start"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var s scenario
			if err := json.Unmarshal([]byte(tc.scenario), &s); err != nil {
				t.Fatal(err)
			}
			p := newPlayer(s, nil)
			if s.Name == "stuck" {
				p.watchdog = time.Second
			}
			_, err := p.play()
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("error %v does not say %q", err, want)
				}
			}
		})
	}
}

// TestAdaptLength rewrites what the reference does with a cut-off reply, and leaves alone what it does with others.
func TestAdaptLength(t *testing.T) {
	t.Parallel()
	const recorded = `{"scenario":{"name":"cut","level":"loop","toolExecution":"sequential","llm":[{"message":
	  {"content":[{"type":"toolCall","id":"t1","name":"echo","arguments":{"v":1}}],"stopReason":"length"}}]},
	 "expected":{"events":[
	  {"type":"message_end","message":{"role":"assistant","content":
	    [{"type":"toolCall","id":"t1","name":"echo","arguments":{"v":1}}],"stopReason":"length"}},
	  {"type":"tool_execution_start","toolCallId":"t1","toolName":"echo","args":{"v":1}},
	  {"type":"tool_execution_end","toolCallId":"t1","toolName":"echo","result":
	    {"content":[],"details":{}},"isError":false},
	  {"type":"message_start","message":
	    {"role":"toolResult","toolCallId":"t1","toolName":"echo","content":[],"details":{},"isError":false}},
	  {"type":"message_end","message":
	    {"role":"toolResult","toolCallId":"t1","toolName":"echo","content":[],"details":{},"isError":false}},
	  {"type":"turn_end","message":{"role":"assistant","content":[],"stopReason":"length"},"toolResults":
	    [{"role":"toolResult","toolCallId":"t1","toolName":"echo","content":[],"details":{},"isError":false}]}],
	 "executed":[{"toolCallId":"t1","tool":"echo","args":{"v":1}}],
	 "hooks":[{"hook":"transformContext","after":4,"messages":1},{"hook":"beforeToolCall","after":2,"toolCallId":"t1"}]}}`
	var r, same recording
	for _, into := range []*recording{&r, &same} {
		if err := json.Unmarshal([]byte(recorded), into); err != nil {
			t.Fatal(err)
		}
	}
	if err := adaptLength(r.Scenario, r.Expected); err != nil {
		t.Fatal(err)
	}
	call := r.Scenario.LLM[0].Message.Content.ToolCalls()[0]
	message := normalMessage(jsonValue(refusedMessage(call)))
	events := list(r.Expected, "events")
	want := append(append([]any{list(same.Expected, "events")[0]},
		refusedCalls(r.Scenario.LLM[0].Message.Content.ToolCalls(), true)...),
		object{"type": "turn_end", "message": events[5].(object)["message"], "toolResults": []any{message}})
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if n := len(list(r.Expected, "executed")); n != 0 {
		t.Errorf("%d calls still executed", n)
	}
	if n := len(list(r.Expected, "hooks")); n != 1 {
		t.Errorf("%d hooks left, want the one that is not about the call", n)
	}
	if text := jsonText(message); !strings.Contains(text, "was not executed") {
		t.Errorf("refused call says %s", text)
	}
}
