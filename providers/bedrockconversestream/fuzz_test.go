package bedrockconversestream

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
)

// FuzzFrames puts what no vendor ever sent into frames that are sound: bytes alone never get behind the checksums. Each
// line is a frame: its kind, its name and its payload, with spaces between them.
func FuzzFrames(f *testing.F) {
	f.Add("event messageStart {\"role\":\"assistant\"}\nevent contentBlockDelta " +
		"{\"delta\":{\"text\":\"a\\ud83d\"}}\nevent contentBlockStop {}")
	f.Add("event contentBlockStart {\"start\":{\"toolUse\":{}}}\nevent contentBlockDelta " +
		"{\"delta\":{\"toolUse\":{\"input\":\"{\"}}}")
	f.Add("event contentBlockDelta {\"delta\":{\"reasoningContent\":{\"signature\":\"#\",\"text\":\"x\"}}}\nevent " +
		"contentBlockDelta {\"delta\":{\"reasoningContent\":{\"redactedContent\":\"AA==\"}}}")
	f.Add("event messageStop {\"stopReason\":\"end_turn\"}\nevent metadata {\"usage\":null}")
	f.Add("exception throttlingException {}\nerror x null\nevent messageStart []")
	f.Fuzz(func(t *testing.T, lines string) {
		var body bytes.Buffer
		for line := range strings.Lines(lines) {
			writeFrame(&body, strings.TrimSuffix(line, "\n"))
		}
		req := &providers.Request{Model: &providers.Model{API: "bedrock-converse-stream"}}
		ended := false
		for e, err := range assemble.Run(t.Context(), req,
			func(_ context.Context, s *assemble.Stream) error { return read(s, &body) }) {
			if err != nil || ended {
				t.Fatalf("%v, after the end: %t", err, ended)
			}
			if ended = e.Terminal(); ended && strings.HasPrefix(e.Message.ErrorMessage, "panic") {
				t.Fatal(e.Message.ErrorMessage)
			}
		}
	})
}

// writeFrame writes a frame, unless the encoder refuses it.
func writeFrame(body *bytes.Buffer, line string) {
	parts := append(strings.SplitN(line, " ", 3), "", "")
	kind, name, payload := parts[0], parts[1], parts[2]
	var frame eventstream.Message
	frame.Payload = []byte(payload)
	frame.Headers.Set(eventstreamapi.MessageTypeHeader, eventstream.StringValue(kind))
	frame.Headers.Set(eventstreamapi.EventTypeHeader, eventstream.StringValue(name))
	frame.Headers.Set(eventstreamapi.ExceptionTypeHeader, eventstream.BytesValue([]byte(name)))
	var b bytes.Buffer
	if eventstream.NewEncoder().Encode(&b, frame) == nil {
		_, _ = b.WriteTo(body)
	}
}
