package cli_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// nested returns JSON inside so many lists.
func nested(levels int, inner string) string {
	return strings.Repeat("[", levels) + inner + strings.Repeat("]", levels)
}

// JSON is indented unless that makes it longer than four times itself and 4 KiB.
func TestJSONIsIndentedUnlessItGrowsTooMuch(t *testing.T) {
	t.Parallel()
	texts := []string{"", "5", `"a"`, "[]", "{}", `[[],{},"[{,:}]"]`, `{"a":{"b":[1,{"c":"\"[,\\"}]},"d":{}}`,
		nested(63, strings.Repeat("1,", 10_000)+"1"), strings.Repeat("[1,", 900) + "1" + strings.Repeat("]", 900)}
	for n := range 90 {
		texts = append(texts, nested(n, ""), nested(n, `"`+strings.Repeat("[,", n*n)+`"`),
			strings.Repeat(`{"a":1,"b":`, n)+"{}"+strings.Repeat("}", n),
			nested(9, strings.Repeat("1,", 15*n)+"1"))
	}
	indented := 0
	for _, text := range texts {
		var want bytes.Buffer
		if err := json.Indent(&want, []byte(text), "", "  "); text != "" && err != nil {
			t.Fatal(err)
		}
		if want.Len() > 4*len(text)+4<<10 {
			want.Reset()
			want.WriteString(text)
		} else {
			indented++
		}
		if got := cli.Indented([]byte(text)); string(got) != want.String() {
			t.Errorf("%.200s\nis shown as\n%.200s", text, got)
		}
	}
	t.Logf("%d of %d are indented", indented, len(texts))
}

// What is no JSON is shown as it is, and spaces between values do not count.
func TestOtherTextIsNotIndented(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"{", "hello", "[1,]", "[1] 2", nested(20_000, "")} {
		if got := string(cli.Indented([]byte(text))); got != text {
			t.Errorf("%.200s is shown as %.200s", text, got)
		}
	}
	spaced := fmt.Sprintf("[%s1]", strings.Repeat(" ", 10_000))
	if got := string(cli.Indented([]byte(spaced))); got != "[\n  1\n]" {
		t.Errorf("shown is %.200q", got)
	}
	wide := nested(40, strings.Repeat("1,"+strings.Repeat(" ", 100), 1000)+"1")
	if got := string(cli.Indented([]byte(wide))); got != wide {
		t.Errorf("%d characters are shown as %d", len(wide), len(got))
	}
}
