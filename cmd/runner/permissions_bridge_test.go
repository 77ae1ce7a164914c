package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/permissions"
)

// The role of a runner is enough for its bridges, also for a message that is too large for a command.
func TestBridgesWithTheRoleOfARunner(t *testing.T) {
	t.Parallel()
	g := newGuarded(t, map[string][]permissions.Name{"runner": {permissions.Runner}})
	const token = "a-token-of-the-bridges"
	p := start(t, []string{"LOOPBUS_HTTP_TOKEN=" + token}, "--nats", g.as("runner"), "--inbox-prefix",
		inboxPrefix("runner"), "--model", "scripted", "--script", write(t, "script.json", `[{"text":"seen"}]`),
		"--http", "127.0.0.1:0", "--bridge", "ag-ui,gateway,sse", "--log-json").ready()
	body := `{"threadId":"s1","runId":"r1","messages":[{"id":"m1","role":"user","content":"` +
		strings.Repeat("x", 500<<10) + `"}]}`
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost,
		"http://"+p.logged("health and metrics", "address")+"/ag-ui", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	response, err := (&http.Client{Timeout: deadline}).Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	said, err := io.ReadAll(response.Body)
	if err != nil || !strings.Contains(string(said), `"RUN_FINISHED"`) {
		t.Errorf("%v, %s: %.500s", err, response.Status, said[max(0, len(said)-500):])
	}
	if strings.Contains(strings.ToLower(p.stderr.String()), "permissions violation") {
		t.Error("a bridge tried what the role may not")
	}
}
