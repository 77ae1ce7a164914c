package pifile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/replay/internal/pifile"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// file is a session file of these lines, each a child of the one before.
func file(lines ...string) []byte {
	text := `{"type":"session","version":3,"id":"s","timestamp":"2026-01-02T03:04:05.000Z","cwd":"/p"}` + "\n"
	parent := "null"
	for i, line := range lines {
		id := string(rune('a' + i))
		text += `{"id":"` + id + `","parentId":` + parent + `,"timestamp":"2026-01-02T03:04:05.000Z",` + line + "}\n"
		parent = `"` + id + `"`
	}
	return []byte(text)
}

// TestAnImportedSessionGoesOnWithItsSettings holds that the model and the thinking level of the leaf's path are the
// session's, and that an export does not say them twice.
func TestAnImportedSessionGoesOnWithItsSettings(t *testing.T) {
	t.Parallel()
	const (
		user  = `"type":"message","message":{"role":"user","content":"hello","timestamp":1}`
		high  = `"type":"thinking_level_change","thinkingLevel":"high"`
		low   = `"type":"thinking_level_change","thinkingLevel":"low"`
		odd   = `"type":"thinking_level_change","thinkingLevel":"boundless"`
		opus  = `"type":"model_change","provider":"anthropic","modelId":"claude-opus-4-5"`
		other = `"type":"model_change","provider":"acme","modelId":"m-1"`
		none  = `"type":"model_change","provider":"acme","modelId":""`
	)
	for _, c := range []struct {
		name  string
		lines []string
		want  loop.Settings
	}{
		{"nothing said", []string{user}, loop.Settings{}},
		{"the last ones", []string{other, high, user, opus, low}, loop.Settings{ThinkingLevel: "low",
			Model: &schemas.ModelRef{API: "anthropic-messages", Provider: "anthropic", ID: "claude-opus-4-5"}}},
		{"a model that the catalogue does not have", []string{opus, other}, loop.Settings{
			Model: &schemas.ModelRef{Provider: "acme", ID: "m-1"}}},
		{"what no command can say", []string{user, none, odd}, loop.Settings{}},
	} {
		im, err := pifile.Import(file(c.lines...))
		if err != nil {
			t.Fatal(err)
		}
		log := newLog(im.Session)
		log.add(t, im.Events...)
		if d := cmp.Diff(c.want, log.state.Settings); d != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, d)
		}
		if _, rests := loop.Next(log.state).(loop.Rest); !rests || log.state.Busy() {
			t.Errorf("%s: the session does not rest: %T", c.name, loop.Next(log.state))
		}
		if c.want.Model == nil {
			continue
		}
		config := schemas.RunConfig{Model: *c.want.Model, ThinkingLevel: c.want.ThinkingLevel}
		log.add(t, &schemas.AgentStart{Config: &config})
		out, err := pifile.Export(im.Session, "/p", log.read())
		if err != nil {
			t.Fatal(err)
		}
		changes := 0
		for _, line := range jsonLines(t, out) {
			changes += strings.Count(line, `"model_change"`)
		}
		if want := strings.Count(strings.Join(c.lines, ""), "model_change"); changes != want {
			t.Errorf("%s: %d changes of the model are exported, want %d", c.name, changes, want)
		}
	}
}
