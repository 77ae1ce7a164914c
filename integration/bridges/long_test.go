package bridges_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// longReply is a model's reply of so many pieces of a KiB each, in an entry of the script.
func longReply(match string, pieces int) string {
	piece := strings.Repeat("0123456789abcdef", 64)
	return `{"match": "` + match + `", "responses": [{"events": [{"type":"start"},{"type":"text_start"},` +
		strings.Repeat(`{"delayMs":1},{"type":"text_delta","delta":"`+piece+`"},`, pieces) +
		`{"type":"text_end"},{"type":"done"}],
		"message": {"content":[{"type":"text","text":"` + strings.Repeat(piece, pieces) + `"}],"stopReason":"stop"}}]},`
}

// A client of the gateway gets all that was said with each piece of a reply. What that comes to is some times the
// reply, and not its square; the pieces and the last text are the whole reply.
func TestALongReplyIsSaidInLargePieces(t *testing.T) {
	t.Parallel()
	const pieces = 600
	r := newRig(t)
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
	c.request("chat.send", map[string]any{"sessionKey": "s1", "message": "long", "idempotencyKey": "k1"})
	c.until(func(f frame) bool { return f.Event == "chat" && strings.Contains(string(f.Payload), `"state":"final"`) })
	if said != pieces<<10 || last != said {
		t.Errorf("the pieces are %d bytes, the last text %d, want %d", said, last, pieces<<10)
	}
	if most := 20 * said; bytes > most {
		t.Errorf("a reply of %d bytes came in frames of %d, want %d at most", said, bytes, most)
	}
}
