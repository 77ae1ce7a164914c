package schemas_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// A text counts as what encoders make of it, those of this package and those that write for browsers.
func TestQuotedSize(t *testing.T) {
	t.Parallel()
	for c := range rune(0x80) {
		text := strings.Repeat("xxxxxxxxxx"+string(c), 100)
		browsers, err := json.Marshal(text)
		if err != nil {
			t.Fatal(err)
		}
		own, err := schemas.Marshal(schemas.Text{Text: text})
		if err != nil {
			t.Fatal(err)
		}
		n := schemas.QuotedSize(text)
		if n < len(own)-len(`{"type":"text","text":""}`) || n < len(browsers)-2 || n > len(browsers)+400 {
			t.Errorf("%q: %d bytes, and JSON has %d, or %d for browsers", c, n, len(own), len(browsers))
		}
		m := schemas.Messages{&schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}}}
		if size := m.JSONSize(); size < n {
			t.Errorf("%q: a message has %d bytes and its text %d", c, size, n)
		}
	}
}

func BenchmarkQuotedSize(b *testing.B) {
	text := strings.Repeat("A line of a program, or of a \"text\".\n", 1<<15)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		_ = schemas.QuotedSize(text)
	}
}
