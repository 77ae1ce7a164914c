package providers_test

import (
	"bytes"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
)

// A wireFrame is an event in Bedrock's form: its name is in a header of the frame, and its payload is JSON.
type wireFrame struct{ name, payload string }

// frameStream returns replies of frames. As in eventStream, the frame with a § is the delta.
func frameStream(frames ...wireFrame) func(deltas int) []byte {
	return func(deltas int) []byte {
		var b bytes.Buffer
		for _, f := range frames {
			if !strings.Contains(f.payload, "§") {
				writeFrame(&b, f.name, f.payload)
				continue
			}
			isCall := strings.Contains(f.payload, "toolUse")
			for n := range deltas {
				writeFrame(&b, f.name, strings.Replace(f.payload, "§", wirePiece(n, deltas, isCall), 1))
			}
		}
		return b.Bytes()
	}
}

func writeFrame(b *bytes.Buffer, name, payload string) {
	frame := eventstream.Message{Payload: []byte(payload)}
	frame.Headers.Set(eventstreamapi.EventTypeHeader, eventstream.StringValue(name))
	frame.Headers.Set(eventstreamapi.MessageTypeHeader, eventstream.StringValue(eventstreamapi.EventMessageType))
	if err := eventstream.NewEncoder().Encode(b, frame); err != nil {
		panic(err)
	}
}
