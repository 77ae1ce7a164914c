package bridges_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// longReply returns an entry of the script: a reply of n pieces of this many bytes each.
func longReply(match string, pieces, bytes int) string {
	piece := strings.Repeat("0123456789abcdef", bytes/16)
	return `{"match": "` + match + `", "responses": [{"events": [{"type":"start"},{"type":"text_start"},` +
		strings.Repeat(`{"delayMs":1},{"type":"text_delta","delta":"`+piece+`"},`, pieces) +
		`{"type":"text_end"},{"type":"done"}],
		"message": {"content":[{"type":"text","text":"` + strings.Repeat(piece, pieces) + `"}],"stopReason":"stop"}}]},`
}

// The gateway sends its clients the whole text so far with each piece of a reply. In total that may be some times the
// length of the reply, but not grow with its square. The pieces together, and the last text, are the whole reply.
func TestALongReplyIsSaidInLargePieces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for prompt, want := range map[string]struct{ length, times int }{
		"long":    {400 << 10, 20},
		"in bits": {20 << 10, 70}, // 1,280 updates: without a limit they would add up to 640 times the length
	} {
		t.Run(prompt, func(t *testing.T) { testReply(t, r, prompt, want.length, want.times) })
	}
}

func testReply(t *testing.T, r *rig, prompt string, length, times int) {
	bytes, said, last := 0, 0, 0
	c := r.chat("", func(_ string, data []byte, f frame) {
		if bytes += len(data); f.Event != "chat" {
			return
		}
		var p struct {
			DeltaText string
			Message   struct{ Content []struct{ Text string } }
		}
		if err := json.Unmarshal(f.Payload, &p); err != nil {
			t.Fatal(err)
		}
		if said += len(p.DeltaText); len(p.Message.Content) > 0 {
			last = len(p.Message.Content[0].Text)
		}
	})
	c.until(named("connect.challenge"))
	c.request("connect", map[string]any{"minProtocol": 4, "maxProtocol": 4})
	c.request("chat.send", map[string]any{"sessionKey": strings.ReplaceAll(prompt, " ", "_"),
		"message": prompt, "idempotencyKey": prompt})
	c.until(func(f frame) bool { return f.Event == "chat" && strings.Contains(string(f.Payload), `"state":"final"`) })
	if said != length || last != said {
		t.Errorf("the pieces are %d bytes, the last text %d, want %d", said, last, length)
	}
	if most := times * said; bytes > most {
		t.Errorf("a reply of %d bytes came in frames of %d, want %d at most", said, bytes, most)
	}
}
