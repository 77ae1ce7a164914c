package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/schemas"
)

// workspaceFiles makes a directory with a context file, a skill and a prompt template.
func workspaceFiles(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"AGENTS.md":                    "Speak like a pirate.",
		".agents/skills/dice/SKILL.md": "---\nname: dice\ndescription: Throws dice\n---\nUse two dice.",
		".agents/prompts/greet.md":     "Say hello to $1.",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// What the root has for prompts is in the system prompt of a run, recorded with its hash, and a prompt that names a
// template or a skill is what they stand for. A profile may leave all of it out.
func TestWhatTheRootHasForPrompts(t *testing.T) {
	w := newWorld(t)
	w.putProfile("plain", `{"resources":false}`)
	start(t, nil, "--nats", w.url, "--id", "r1", "--tools", "read", "--root", workspaceFiles(t), "--system-prompt",
		"You are Ada.", "--http", "127.0.0.1:0", "--log-json").ready()

	w.command("s1", &schemas.Prompt{Input: schemas.Input{Text: "/greet 'Anne Bonny'", Expand: true}})
	log := w.until("s1", 1, schemas.EventAgentEnd)
	var config *schemas.RunConfig
	var said []string
	var sources []schemas.PromptSource
	for _, e := range log {
		switch d := e.Data.(type) {
		case *schemas.AgentStart:
			config = d.Config
		case *schemas.MessageEnd:
			if m, ok := d.Message.Message.(*schemas.UserMessage); ok {
				said = append(said, m.Content.JoinText())
			}
		case *schemas.HookDecision:
			sources = append(sources, d.Sources...)
		}
	}
	if len(said) != 1 || said[0] != "Say hello to Anne Bonny." {
		t.Errorf("the user said %q", said)
	}
	if len(sources) != 1 || sources[0].Kind != schemas.ResourceTemplate || sources[0].Path != ".agents/prompts/greet.md" {
		t.Errorf("expanded from %+v", sources)
	}
	for _, want := range []string{"You are Ada.\n\n# Project Context\n", "## AGENTS.md\n\nSpeak like a pirate.",
		"<name>dice</name>", "Current working directory: /"} {
		if !strings.Contains(config.SystemPrompt, want) {
			t.Errorf("%q is missing in the system prompt:\n%s", want, config.SystemPrompt)
		}
	}
	if len(config.Sources) != 2 || config.Sources[0].Kind != schemas.ResourceContext {
		t.Errorf("sources %+v", config.Sources)
	}
	text, err := w.listed("tools", "--session", "s1")
	if err != nil || !strings.Contains(text, "skill                 dice  .agents/skills/dice/SKILL.md  ") {
		t.Errorf("shown:\n%s, %v", text, err)
	}

	w.command("s2", &schemas.SetProfile{Profile: "plain"})
	w.command("s2", &schemas.Prompt{Input: schemas.Input{Text: "/greet x", Expand: true}})
	for _, e := range w.until("s2", 1, schemas.EventAgentEnd) {
		switch d := e.Data.(type) {
		case *schemas.AgentStart:
			if d.Config.SystemPrompt != "You are Ada." || d.Config.Sources != nil {
				t.Errorf("with a profile without resources: %q, %v", d.Config.SystemPrompt, d.Config.Sources)
			}
		case *schemas.MessageEnd:
			if m, ok := d.Message.Message.(*schemas.UserMessage); ok && m.Content.JoinText() != "/greet x" {
				t.Errorf("with a profile without resources the user said %q", m.Content.JoinText())
			}
		}
	}
}
