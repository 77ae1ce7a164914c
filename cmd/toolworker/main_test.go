package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// The command as a whole: it starts on a server where nothing is set up, serves the built-in tools, keeps them in their
// root, logs nothing of what they say, and drains.
func TestCommand(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.txt"), []byte("content of a\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string {
		return map[string]string{"LOOPBUS_ROOT": root, "LOOPBUS_LOG_LEVEL": "debug"}[name]
	}
	environ := []string{"PATH=" + os.Getenv("PATH"), "API_KEY=secret", "EXTRA=1"}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var log bustest.Log
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, []string{"--nats", r.server.ClientURL(), "--id", "w9", "--env", "EXTRA"}, getenv, environ,
			strings.NewReader(""), &log, &log)
	}()
	for _, tool := range []string{"read", "ls", "bash"} {
		bustest.Eventually(t, "announcement of "+tool, func() bool { return r.announcement(tool, "w9") != nil })
	}
	r.call("read", `{"path":"a.txt"}`)
	r.wantText("content of a\n", false)
	r.call("ls", `{}`)
	r.wantText("a.txt", false)
	r.call("bash", `{"command":"echo $API_KEY$EXTRA; pwd"}`)
	real, err := filepath.EvalSymlinks(root)
	if err != nil {
		t.Fatal(err)
	}
	r.wantText("1\n"+real+"\n", false)
	r.call("read", `{"path":"/etc/passwd"}`)
	r.wantText("Access denied: /etc/passwd is outside "+real+", and only files inside may be used", true)
	r.settled()
	cancel()
	if err := bustest.Within(t, ended); err != nil {
		t.Error(err)
	}
	for _, said := range []string{"content of a", "a.txt", "secret"} {
		if strings.Contains(log.String(), said) {
			t.Errorf("%q is in the log:\n%s", said, log.String())
		}
	}
}

func TestCommandSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	none := func(string) string { return "" }
	if err := run(t.Context(), []string{"--help"}, none, nil, strings.NewReader(""), &out, &out); err != cli.ErrHelp ||
		!strings.Contains(out.String(), "--root") {
		t.Errorf("%v, %s", err, out.String())
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := run(ctx, []string{"--nats", "nats://127.0.0.1:1"}, none, nil, strings.NewReader(""), &out, &out)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("no server: %v", err)
	}
}
