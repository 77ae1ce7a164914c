package main

import (
	"io"
	"strings"
	"testing"
	"time"
)

func TestOptionsAreCheckedBeforeAnythingStarts(t *testing.T) {
	_, err := parse([]string{"--nats=", "--prefix", "a..b", "--id", "a.b", "--tools", "read,fly,read", "--root", "/no/such", "--concurrency", "0",
		"--workspace", "a=b", "--stop-timeout", "0s", "--log-level", "loud"}, func(string) string { return "" }, io.Discard)
	for _, want := range []string{"--nats: ", "--prefix: ", "--id: ", "--tools: no tool \"fly\"", "--tools: \"read\" is named twice", "--root: \"/no/such\"", "--concurrency: ", "--workspace: ",
		"--stop-timeout: ", "--log-level: \"loud\""} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	o, err := parse(nil, func(name string) string { return map[string]string{"LOOPBUS_STOP_TIMEOUT": "3s"}[name] }, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if o.nats != "nats://127.0.0.1:4222" || o.root != "." || o.stopTimeout != 3*time.Second || !strings.HasPrefix(o.id, "w-") ||
		strings.Join(o.tools, " ") != "read write edit grep find ls bash" {
		t.Errorf("got %+v", o)
	}
}
