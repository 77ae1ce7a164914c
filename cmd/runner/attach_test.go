package main

import (
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// A prompt is text also where it looks like JSON; an image that is larger than a command comes with it, and so does
// text from standard input.
func TestAttachedFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.runner("r1", `[{"text":"seen"}]`)
	png := "\x89PNG\r\n\x1a\n" + strings.Repeat("x", 900<<10)
	var out strings.Builder
	p, _ := program()
	err := p.Run(t.Context(), []string{"run", "{not JSON", "--nats", w.url, "--session", "s1", "--attach",
		write(t, "a.png", png), "--attach", "-"}, ioOf(strings.NewReader("line\n"), &out))
	if err != nil || !strings.Contains(out.String(), "seen") {
		t.Fatalf("%v in:\n%s", err, out.String())
	}
	for _, e := range w.until("s1", 1, schemas.EventAgentEnd) {
		end, ok := e.Data.(*schemas.MessageEnd)
		if !ok {
			continue
		}
		user, ok := end.Message.Message.(*schemas.UserMessage)
		if !ok {
			continue
		}
		if got, want := user.Content.JoinText(), "{not JSON\n\n<file name=\"stdin\">\nline\n</file>"; got != want {
			t.Errorf("the text is %q, want %q", got, want)
		}
		image, ok := user.Content[1].(schemas.Image)
		if !ok || image.MimeType != "image/png" || image.Data != base64.StdEncoding.EncodeToString([]byte(png)) {
			t.Errorf("the image is another one, %s", image.MimeType)
		}
		return
	}
	t.Error("there is no message of the user")
}

func TestWhatCannotBeAttached(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ path, stdin, want string }{
		{"/does/not/exist", "", "no such file"},
		{write(t, "b.bin", "\xff\xfe\x00\x01"), "", "neither text nor an image"},
		{"-", "", "standard input is empty"},
		{"-", strings.Repeat("x", schemas.MaxInputBytes+1), "more than"},
	} {
		o := onceSettings{Prompt: "go", Attach: cli.Lines{c.path}}
		if _, err := o.input(strings.NewReader(c.stdin)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v does not say %q", c.path, err, c.want)
		}
	}
	o := onceSettings{Prompt: "-", Attach: cli.Lines{"-"}}
	var usage cli.UsageError
	if err := o.read(strings.NewReader("x")); !errors.As(err, &usage) {
		t.Errorf("standard input twice: %v", err)
	}
}
