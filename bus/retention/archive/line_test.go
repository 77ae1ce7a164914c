package archive

import (
	"bytes"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
)

// Each line that is written is read again as it was, whatever bytes a log has.
func TestLinesAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	lines := []line{
		{Archive: &opening{version, "s1", time.Now().UTC()}}, {Archive: &opening{version, "s1", time.Unix(0, 0).UTC()}},
		{Payload: &payload{"nats://agent_blobs/x", nil}}, {Payload: &payload{"<&>\u2028", []byte{0, 0xff}}},
		{End: &Summary{}},
		{End: &Summary{Session: "s1", Messages: 1, Events: 1 << 63, Hash: "00"}},
	}
	for _, body := range []string{
		"", "null", "[]", `[{"a":"<&>","a":1e400}]`, "[\"\u2028\x7f\"]", `["\u2028\ud800\/"]`, "[\"\xff\"]", "[ ]",
		"[]\n", "{", "\xff",
	} {
		for _, header := range []map[string][]string{
			nil, {}, {"Ce-B": {"<&>\u2028\b\f\x01\""}, "ce-a": {"", "x"}, "Ce-C": nil, "ce-d": {}},
		} {
			lines = append(lines, line{Message: messageOf(eventstore.Message{Header: header, Payload: []byte(body)})})
		}
	}
	for _, want := range lines {
		var text bytes.Buffer
		if err := encoder(&text).Encode(want); err != nil {
			t.Fatal(err)
		}
		got, err := parse(bytes.TrimSpace(text.Bytes()))
		if err != nil {
			t.Errorf("%q: %v", text.Bytes(), err)
		} else if m := want.Message; m != nil && (!bytes.Equal(got.Message.body(), m.body()) ||
			!maps.EqualFunc(got.Message.Header, m.Header, slices.Equal)) {
			t.Errorf("%q: %+v", text.Bytes(), got.Message)
		}
	}
}
