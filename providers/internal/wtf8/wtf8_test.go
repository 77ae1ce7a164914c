package wtf8_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
)

const (
	high = "\xed\xa0\xbd" // U+D83D
	low  = "\xed\xb9\x88" // U+DE48
)

func TestTextKeepsHalves(t *testing.T) {
	for in, want := range map[string]string{
		`""`: "", `null`: "", `"plain é"`: "plain é", "\"x\xff\"": "x\uFFFD", `"a\ud83d"`: "a" + high, `"\uDE48b"`: low + "b",
		`"\ud83d\ude48"`: "🙈", `"\ud83d\ud83d\ude48"`: high + "🙈", `"\ude48\ud83d"`: low + high,
		`"\ud83d\n\t\"\\\/\b\f\r\u00e9"`: high + "\n\t\"\\/\b\f\r\u00e9", `"\ud83d\u0041"`: high + "A", `"\\ud83d"`: `\ud83d`,
	} {
		var got wtf8.Text
		if err := json.Unmarshal([]byte(in), &got); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v; want %q", in, got, err, want)
		}
	}
	for _, in := range []string{``, `1`, `{}`, `"`, `"a`, `"a"b"`, "\"\n\"", `"\ud8"`} {
		if err := new(wtf8.Text).UnmarshalJSON([]byte(in)); err == nil {
			t.Errorf("%s was read", in)
		}
	}
}

func TestCleanRemovesUnpairedHalves(t *testing.T) {
	for in, want := range map[string]string{
		"": "", "plain 🙈": "plain 🙈", "a" + high + "b": "ab", high + low: "🙈", low + high: "", "x\xffy": "x\uFFFDy", high: "",
		high + high + low: "🙈", "\xed\xa0": "\uFFFD\uFFFD",
	} {
		if got := wtf8.Clean(in); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

func TestJoinerHoldsAHalfForTheNextDelta(t *testing.T) {
	for name, tc := range map[string]struct {
		deltas, want []string
		rest         string
	}{
		"plain":            {[]string{"a", "", "b"}, []string{"a", "", "b"}, ""},
		"split pair":       {[]string{"a" + high, low + "b"}, []string{"a", "🙈b"}, ""},
		"half alone":       {[]string{high, "b"}, []string{"", "\uFFFDb"}, ""},
		"half at the end":  {[]string{"a" + high}, []string{"a"}, "\uFFFD"},
		"half waits twice": {[]string{high, "", low}, []string{"", "", "🙈"}, ""},
		"low half first":   {[]string{low + "a"}, []string{"\uFFFDa"}, ""},
		"two halves":       {[]string{high + high, low}, []string{"\uFFFD", "🙈"}, ""},
		"Korean":           {[]string{"한", "국"}, []string{"한", "국"}, ""},
	} {
		var j wtf8.Joiner
		for i, delta := range tc.deltas {
			if got := j.Add(delta); got != tc.want[i] {
				t.Errorf("%s: delta %d: %q, want %q", name, i, got, tc.want[i])
			}
		}
		if got := j.Rest(); got != tc.rest {
			t.Errorf("%s: rest %q, want %q", name, got, tc.rest)
		}
	}
}

func FuzzText(f *testing.F) {
	f.Add(`"a\ud83d\ude48"`)
	f.Add(`"\ud83d\u12"`)
	f.Fuzz(func(t *testing.T, in string) {
		var text wtf8.Text
		if json.Unmarshal([]byte(in), &text) != nil {
			return
		}
		var plain string
		if in != "null" && json.Unmarshal([]byte(in), &plain) != nil {
			t.Fatalf("%q was read as %q", in, text)
		}
		if got := mended(string(text)); got != plain {
			t.Fatalf("%q: %q, encoding/json says %q", in, got, plain)
		}
		if !utf8.ValidString(wtf8.Clean(string(text))) {
			t.Fatalf("%q: not clean", in)
		}
	})
}

// mended returns the text as encoding/json would decode it, with U+FFFD in place of invalid bytes.
func mended(s string) string {
	var j wtf8.Joiner
	return strings.ToValidUTF8(j.Add(s)+j.Rest(), "\uFFFD")
}
