//go:build unix

package anylanguage_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Output of pi's session manager about a file (testdata/pi/open.mjs).
type toldByPi struct {
	ID, CWD, Leaf, Name string
	Listed              []struct {
		ID, FirstMessage string
		MessageCount     int
	}
	Tree    []piNode
	Context struct {
		Messages []struct {
			Role    string
			Content []struct{ Text string }
		}
		Model struct{ Provider, ModelID string }
	}
}

type piNode struct {
	ID, Type, Label string
	Children        []piNode
}

// TestPi transfers a session to pi and back: pi opens the file that replay exports, lists it, shows its tree and its
// context, and continues it. replay imports the file that pi has written, and a runner continues the session.
func TestPi(t *testing.T) {
	t.Parallel()
	here := filepath.Join("testdata", "pi")
	_, modules := os.Stat(filepath.Join(here, "node_modules", "@mariozechner", "pi-coding-agent"))
	needs(t, "install Node.js 20 or later and run npm ci --ignore-scripts in integration/anylanguage/testdata/pi",
		program("node"), modules)
	w := newWorld(t)
	c, err := client.New(w.conn.NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Session("topi")
	w.prompt(s, "first question")
	w.prompt(s, "second question")
	for _, d := range []schemas.CommandData{
		&schemas.Name{Name: "My work"}, &schemas.Label{TargetID: "m4", Label: "start"}, &schemas.Navigate{TargetID: "m4"},
	} {
		if err := s.Do(t.Context(), d); err != nil {
			t.Fatal(err)
		}
	}
	w.prompt(s, "another question")

	file := filepath.Join(t.TempDir(), "session.jsonl")
	if err := os.WriteFile(file, w.replay("export", "topi", "--format", "pi", "--cwd", t.TempDir()), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), "node", filepath.Join(here, "open.mjs"), file).Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var told struct{ Before, After toldByPi }
	if err := json.Unmarshal(out, &told); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	b := told.Before
	if len(b.Listed) != 1 || b.ID != "topi" || b.Listed[0].ID != "topi" || b.Listed[0].MessageCount != 6 ||
		b.Listed[0].FirstMessage != "first question" || b.Name != "My work" {
		t.Errorf("pi lists %+v as %s, %q", b.Listed, b.ID, b.Name)
	}
	if len(b.Tree) != 2 || !has(b.Tree, func(n piNode) bool { return n.Label == "start" }) {
		t.Errorf("pi shows the tree %+v, want two roots and a label", b.Tree)
	}
	if m := b.Context.Messages; len(m) != 2 || m[0].Content[0].Text != "another question" || m[1].Role != "assistant" {
		t.Errorf("pi's context is %+v", m)
	}
	if m := told.After.Context.Messages; len(m) != 4 || m[3].Content[0].Text != "now pi answers" {
		t.Errorf("pi's context after two more messages is %+v", m)
	}

	if said := string(w.replay("import", file, "--session", "frompi")); !strings.Contains(said, "session frompi, ") {
		t.Error(said)
	}
	back := c.Session("frompi")
	w.prompt(back, "third question")
	page, err := back.Messages(t.Context(), schemas.MessagesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, m := range page.Messages {
		message, err := schemas.DecodeMessage(m.Message)
		if err != nil {
			t.Fatal(err)
		}
		switch message := message.(type) {
		case *schemas.UserMessage:
			all = append(all, message.Content.JoinText())
		case *schemas.AssistantMessage:
			all = append(all, message.Content.JoinText())
		}
	}
	if len(all) != 6 || all[0] != "another question" || all[3] != "now pi answers" || all[4] != "third question" {
		t.Errorf("after the import the session has %q", all)
	}
}

func has(tree []piNode, is func(piNode) bool) bool {
	return slices.ContainsFunc(tree, func(n piNode) bool { return is(n) || has(n.Children, is) })
}

// prompt sends a prompt to a session and waits for the end of its run.
func (w *world) prompt(s *client.Session, text string) {
	w.t.Helper()
	run, err := s.Prompt(w.t.Context(), client.Text(text))
	if err == nil {
		_, err = run.Wait(w.t.Context())
	}
	if err != nil {
		w.t.Fatalf("prompt %q: %v", text, err)
	}
}

// replay runs replay and returns its output.
func (w *world) replay(args ...string) []byte {
	w.t.Helper()
	dir, err := programs()
	if err != nil {
		w.t.Fatal(err)
	}
	c := exec.CommandContext(w.t.Context(), filepath.Join(dir, "replay"), append(args, "--nats", w.url)...)
	out, err := c.Output()
	if err != nil {
		why := ""
		if failed, ok := err.(*exec.ExitError); ok {
			why = string(failed.Stderr)
		}
		w.t.Fatal(fmt.Errorf("replay %v: %w: %s", args, err, why))
	}
	return out
}
