package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/cmd/runner/internal/listing"
	"github.com/loopbus/loopbus/schemas"
)

// listed runs one of the commands that list something.
func (w *world) listed(args ...string) (string, error) {
	w.t.Helper()
	var out bytes.Buffer
	err := run(w.t.Context(), append(args, "--nats", w.url), func(string) string { return "" }, &out, &out)
	return out.String(), err
}

func (w *world) putProfile(name, value string) {
	w.t.Helper()
	if _, err := w.conn.JetStream().Publish(w.t.Context(), "$KV."+schemas.BucketProfiles+"."+name,
		[]byte(value)); err != nil {
		w.t.Fatal(err)
	}
}

// TestSessionToolsAreShown has a session follow a profile that allows it one tool of two, and asks why.
func TestSessionToolsAreShown(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.putProfile("narrow", `{"tools":["bash","agent_interrupt"]}`)
	start(t, nil, "--nats", w.url, "--id", "r1", "--profile", "narrow", "--http", "127.0.0.1:0", "--log-json").ready()
	w.prompt("s1")
	w.until("s1", 1, schemas.EventAgentEnd)

	text, err := w.listed("tools", "--session", "s1")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"profile narrow", "1 base\n    added bash\n", "3 extension\n    added session_branch, agent_interrupt\n",
		"5 policy\n    removed session_branch: the profile does not allow it\n", "7 abort\n",
		"agent_interrupt  -        -          idempotent  -\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	text, err = w.listed("tools", "--session", "s1", "--json")
	var shown listing.SessionTools
	if err == nil {
		err = json.Unmarshal([]byte(text), &shown)
	}
	if err != nil || len(shown.Layers) != 7 || len(shown.Tools) != 2 || shown.Profile != "narrow" || shown.RunID == "" {
		t.Errorf("shown %s, %v", text, err)
	}
	if _, err := w.listed("tools", "--session", "s2"); err == nil ||
		!strings.Contains(err.Error(), "session s2 has no run yet") {
		t.Errorf("a session without a run: %v", err)
	}
	if _, err := w.listed("tools", "--session", "a.b"); err == nil || !strings.Contains(err.Error(), "--session") {
		t.Errorf("an illegal name: %v", err)
	}
}

func TestProfilesAreListed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.putProfile("narrow", `{"description":"Reads only.","tools":["read"],"model":{"provider":"openai","id":"gpt-5.4"}}`)
	w.putProfile("broken", `{"tools":"read"}`)
	text, err := w.listed("profiles")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"broken   2         -               -      cannot be read: schemas: profile: /tools: " +
			"expected array, but got string\n",
		"narrow   1         openai/gpt-5.4  read   Reads only.\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in:\n%s", want, text)
		}
	}
	text, err = w.listed("profiles", "--json")
	if err != nil || strings.Count(text, "\n") != 2 || !strings.Contains(text, `"error":"schemas: profile`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}
}
