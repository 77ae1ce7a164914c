package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

func TestVisible(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"plain\n\ttext é 𝄞 👩\u200d💻": "plain\n\ttext é 𝄞 👩\u200d💻",
		"\x1b[31mred":                `\x1b[31mred`,
		"a\r\nb\rc":                  `a` + "\n" + `b\rc`,
		"\x00\x7f\u0085\u009b":       `\x00\x7f\u0085\u009b`,
		"\xff\xc0\ufffd":             `\xff\xc0` + "\ufffd",
		"\u202eevil\u2028\ufeff":     `\u202eevil\u2028\ufeff`,
		"\U000e0041":                 `\ue0041`,
	} {
		if got := cli.Visible(in); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestOneLineAndCut(t *testing.T) {
	t.Parallel()
	if got := oneLine("a\nb\tc", 10); got != `a\nb\tc` {
		t.Errorf("got %q", got)
	}
	if got := cutText("ééééé", 3); got != "ééé… +2 characters" {
		t.Errorf("got %q", got)
	}
	if got := cutText("ééé", 3); got != "ééé" {
		t.Errorf("got %q", got)
	}
}

func TestJSONForTerminal(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	in := "{\"a\":\"é\u009b\u202e\U000e0041\x7f\"}\n"
	if n, err := cli.JSONOut(&b, true).Write([]byte(in)); n != len(in) || err != nil {
		t.Fatal(n, err)
	}
	if got, want := b.String(), "{\"a\":\"é\\u009b\\u202e\\udb40\\udc41\\u007f\"}\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestColourIsOnlyOurs(t *testing.T) {
	t.Parallel()
	for _, env := range []map[string]string{{"NO_COLOR": "1"}, {"TERM": "dumb"}} {
		if cli.WantsColour(os.Stdout, func(k string) string { return env[k] }) {
			t.Errorf("colour with %v", env)
		}
	}
	if cli.IsTerminal(new(strings.Builder)) {
		t.Error("a string is a terminal")
	}
	got := style(true).call(cli.Visible("\x1b[0mx"))
	if got != "\x1b[36m\\x1b[0mx\x1b[0m" {
		t.Errorf("got %q", got)
	}
	if got := style(false).problem(true, "x"); got != "x" {
		t.Errorf("got %q", got)
	}
}
