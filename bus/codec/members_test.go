package codec_test

import (
	"bytes"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/schemas"
)

// A message may have a member for every few bytes, and a runner decodes a hundred messages at once. The test counts
// what is allocated, so it is not parallel.
func TestManyMembersTakeLittle(t *testing.T) {
	message := func(head string, size int) []byte {
		b := bytes.NewBufferString(head)
		for i := 0; b.Len() < size; i++ {
			fmt.Fprintf(b, `,"%x":0`, i)
		}
		b.WriteByte('}')
		return b.Bytes()
	}
	const envelope = `{"specversion":"1.0","id":"i","source":"s","type":"dev.loopbus.prompt.v1","data":{"text":"x"}`
	structured := nats.Header{"Content-Type": {"application/cloudevents+json"}}
	decode := func(header nats.Header, data []byte) func() string {
		return func() string {
			_, err := codec.DecodeCommand("s1", schemas.CommandPrompt, header, data, "id", storedAt)
			return fmt.Sprint(err)
		}
	}
	foreign := func(data []byte) func() string {
		return func() string { return fmt.Sprint(codec.IsForeign(nil, data), codec.IsAnswer(nil, data)) }
	}
	list := `,"x":[{}` + strings.Repeat(",{}", 2_700_000) + `]}`
	for _, tt := range []struct {
		about string
		f     func() string
		want  string
		most  uint64 // MiB
	}{
		{"members of a CloudEvent", decode(structured, message(envelope, 8<<20)), "more than 256 members", 1},
		{"members of what looks like one", decode(nil, message(envelope, 8<<20)), "more than 256 members", 1},
		{"values of an extension", decode(structured, []byte(envelope+list)), "neither string", 48},
		{"members of what is no command", foreign(message(`{"x":0`, 8<<20)), "false false", 1},
		{"members of an answer", foreign(message(`{"type":"io.nats.x"`, 8<<20)), "true true", 1},
		{"events that are none", foreign([]byte("[{}" + strings.Repeat(",{}", 2_700_000) + "]")), "false false", 1},
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		got := tt.f()
		runtime.ReadMemStats(&after)
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: %.200s", tt.about, got)
		}
		if took := (after.TotalAlloc - before.TotalAlloc) >> 20; took > tt.most {
			t.Errorf("%s: %d MiB were allocated", tt.about, took)
		}
	}
}
