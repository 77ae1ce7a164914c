package redact_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas/redact"
)

func TestThroughEscapes(t *testing.T) {
	t.Parallel()
	const secret = `a/key"with\all`
	hide := func(s string) string { return strings.ReplaceAll(s, secret, "*") }
	var unicode string
	for _, c := range secret {
		unicode += fmt.Sprintf(`\u%04X`, c)
	}
	inJSON := func(s string) string {
		quoted, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(quoted)
	}
	for text, want := range map[string]string{
		"said " + secret:                      "said *",
		`said \u0061\/key\"with\\all`:         "said *",
		unicode:                               "*",
		inJSON(unicode):                       `"*"`,
		inJSON(inJSON(unicode)):               `""*""`,
		inJSON(secret) + " and " + secret:     `"*" and *`,
		`C:\\x \u0061 \/ is no secret`:        `C:\\x \u0061 \/ is no secret`,
		strings.Repeat(`\u005cu005c`, 10_000): strings.Repeat(`\u005cu005c`, 10_000),
	} {
		if got := redact.Through(text, hide); got != want {
			t.Errorf("%.100q became %.100q, want %.100q", text, got, want)
		}
	}
}
