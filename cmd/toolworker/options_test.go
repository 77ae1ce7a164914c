package main

import (
	"strings"
	"testing"
	"time"
)

func TestOptionsAreCheckedBeforeAnythingStarts(t *testing.T) {
	t.Parallel()
	_, err := parse([]string{"--nats=", "--prefix", "a..b", "--id", "a.b", "--tools", "read,fly,read", "--root",
		"/no/such", "--concurrency", "0",
		"--workspace", "a=b", "--stop-timeout", "0s", "--ack-wait", "900ms", "--read-timeout", "1us", "--log-level",
		"loud"},
		func(string) string { return "" })
	for _, want := range []string{"--nats: ", "--prefix: ", "--id: ", "--tools: unknown tool \"fly\"",
		"--tools: \"read\" is named twice", "--root: \"/no/such\"", "--concurrency: ", "--workspace: ",
		"--stop-timeout: ", "--ack-wait: 900ms", "--read-timeout: ", "--log-level: \"loud\""} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q is missing in:\n%v", want, err)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	o, err := parse(nil, func(name string) string { return map[string]string{"LOOPBUS_STOP_TIMEOUT": "3s"}[name] })
	if err != nil {
		t.Fatal(err)
	}
	if o.Server.Connection.URL() != "nats://127.0.0.1:4222" || o.Tools.Root != "." ||
		o.Server.StopTimeout != 3*time.Second ||
		o.Tools.ReadTimeout != 2*time.Minute ||
		!strings.HasPrefix(o.Server.ID, "w-") ||
		strings.Join(o.Tools.Tools, " ") != "read write edit grep find ls bash" {
		t.Errorf("got %+v", o)
	}
}
