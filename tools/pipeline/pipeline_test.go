package pipeline_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/pipeline"
)

func tool(name, workspace string) schemas.ToolDefinition {
	return schemas.ToolDefinition{Name: name, Workspace: workspace}
}

func ofClient(name, workspace string) schemas.ToolDefinition {
	return schemas.ToolDefinition{Name: name, Workspace: workspace, Channel: true}
}

func names(tools []schemas.ToolDefinition) (list []string) {
	for _, t := range tools {
		name := t.Name
		if t.Workspace != "" {
			name += "@" + t.Workspace
		}
		list = append(list, name)
	}
	return list
}

var announced = []schemas.ToolDefinition{
	tool("agent_interrupt", ""), tool("bash", ""), tool("bash", "jail"), tool("bash", "w"), ofClient("pick", "ui"),
	tool("read", ""), ofClient("read", "ui"),
	tool("session_branch", ""), {Name: "deploy", Scopes: []string{"prod", "deploy"}},
}

func TestLayers(t *testing.T) {
	for name, c := range map[string]struct {
		policy schemas.ToolPolicy
		want   []string
	}{
		"nothing said":   {schemas.ToolPolicy{}, []string{"bash", "read"}},
		"in a workspace": {schemas.ToolPolicy{Workspace: "w"}, []string{"bash@w"}},
		"with extensions": {schemas.ToolPolicy{Workspace: "w", Extensions: schemas.ExtensionTools()},
			[]string{"bash@w", "session_branch", "agent_interrupt"}},
		"one extension": {schemas.ToolPolicy{Workspace: "w", Extensions: []string{"agent_interrupt"}},
			[]string{"bash@w", "agent_interrupt"}},
		"sandboxed": {schemas.ToolPolicy{Sandbox: &schemas.SandboxPolicy{Tools: []string{"bash"},
			Workspace: "jail"}}, []string{"bash@jail", "read"}},
		"sandboxed, but not there": {schemas.ToolPolicy{Sandbox: &schemas.SandboxPolicy{Tools: []string{"read"},
			Workspace: "jail"}}, []string{"bash"}},
		"of a client":          {schemas.ToolPolicy{Channel: "ui"}, []string{"bash", "read", "pick@ui"}},
		"client and workspace": {schemas.ToolPolicy{Channel: "ui", Workspace: "ui"}, []string{"pick@ui", "read@ui"}},
		"of a client only": {schemas.ToolPolicy{Channel: "ui", ChannelOnly: true, Extensions: schemas.ExtensionTools(),
			Sandbox: &schemas.SandboxPolicy{Tools: []string{"read"}, Workspace: "jail"}}, []string{"pick@ui", "read@ui"}},
		"of a client only, chosen": {schemas.ToolPolicy{Channel: "ui", ChannelOnly: true, Workspace: "ui",
			Chosen: []string{"read", "bash"}}, []string{"read@ui"}},
		"of no client": {schemas.ToolPolicy{Channel: "w"}, []string{"bash", "read"}},
		"of no client only": {schemas.ToolPolicy{Channel: "w", ChannelOnly: true,
			Sandbox: &schemas.SandboxPolicy{Tools: []string{"bash"}, Workspace: "jail"}}, nil},
		"of the session's own workspace only": {schemas.ToolPolicy{Channel: "w", ChannelOnly: true, Workspace: "w"}, nil},
		"of a client only, not there":         {schemas.ToolPolicy{Channel: "gone", ChannelOnly: true}, nil},
		"allowed":                             {schemas.ToolPolicy{Allowed: []string{"read", "deploy"}}, []string{"read"}},
		"none allowed":                        {schemas.ToolPolicy{Allowed: []string{}}, nil},
		"chosen, in that order": {schemas.ToolPolicy{Chosen: []string{"read", "bash", "gone"}},
			[]string{"read", "bash"}},
		"one scope of two": {schemas.ToolPolicy{Scopes: []string{"prod"}}, []string{"bash", "read"}},
		"both scopes": {schemas.ToolPolicy{Scopes: []string{"prod", "deploy"}},
			[]string{"bash", "read", "deploy"}},
		"every scope": {schemas.ToolPolicy{Scopes: []string{"*"}}, []string{"bash", "read", "deploy"}},
	} {
		t.Run(name, func(t *testing.T) {
			tools, report := pipeline.Build(c.policy, announced)
			if d := cmp.Diff(c.want, names(tools)); d != "" {
				t.Errorf("tools (-want +got):\n%s", d)
			}
			checkReport(t, tools, report)
		})
	}
}

// checkReport holds the report against what came out: who follows it has the same tools.
func checkReport(t *testing.T, tools []schemas.ToolDefinition, report []schemas.ToolLayer) {
	t.Helper()
	if len(report) != 7 {
		t.Errorf("%d layers have reported, want 7", len(report))
	}
	has := map[string]bool{}
	for _, layer := range report {
		for _, gone := range layer.Removed {
			if has[gone.Name] && layer.Name != "channel" {
				delete(has, gone.Name)
			}
			if gone.Reason == "" {
				t.Errorf("layer %s gives no reason for %s", layer.Name, gone.Name)
			}
		}
		for _, name := range layer.Added {
			has[name] = true
		}
	}
	for _, tool := range tools {
		if !has[tool.Name] {
			t.Errorf("no layer has brought %s", tool.Name)
		}
		delete(has, tool.Name)
	}
	if len(has) > 0 {
		t.Errorf("reported, but not there: %v", has)
	}
}

func TestSchemasFitTheProvider(t *testing.T) {
	const given = `{"$schema":"x","type":"object","properties":{"additionalProperties":{"type":"string"},
		"$schema":{"enum":[{"additionalProperties":false}]},
		"list":{"type":"array","items":[{"additionalProperties":false,"type":"object"}]},
		"open":{"additionalProperties":{"type":"string"}}},"required":["list"],"additionalProperties":false}`
	for name, c := range map[string]struct {
		policy      schemas.ToolPolicy
		given, want string
	}{
		"gemini": {schemas.ToolPolicy{API: "google-generative-ai"}, given,
			`{"type":"object","properties":{"additionalProperties":{"type":"string"},` +
				`"$schema":{"enum":[{"additionalProperties":false}]},"list":{"type":"array","items":[{"type":"object"}]},` +
				`"open":{"additionalProperties":{"type":"string"}}},"required":["list"]}`},
		"vertex by its provider": {schemas.ToolPolicy{Provider: "google-vertex"}, `{"$schema":"x"}`, `{}`},
		"openai": {schemas.ToolPolicy{API: "openai-responses"}, `{"type":"object", "properties":{}}`,
			`{"type":"object","properties":{},"additionalProperties":false}`},
		"openai, open on purpose": {schemas.ToolPolicy{API: "openai-responses"}, `{"additionalProperties":true}`,
			`{"additionalProperties":true}`},
		"anthropic": {schemas.ToolPolicy{API: "anthropic-messages"}, given, given},
		"gemini, nothing to change": {schemas.ToolPolicy{API: "google-generative-ai"}, "{ \"type\": \"object\" }",
			"{ \"type\": \"object\" }"},
		"no schema": {schemas.ToolPolicy{API: "openai-completions"}, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			before := schemas.ToolDefinition{Name: "t", Parameters: json.RawMessage(c.given)}
			tools, report := pipeline.Build(c.policy, []schemas.ToolDefinition{before})
			if got := string(tools[0].Parameters); got != c.want {
				t.Errorf("schema\n%s, want\n%s", got, c.want)
			}
			if changed := len(report[5].Changed) > 0; changed != (c.given != c.want) {
				t.Errorf("layer schema says changed: %t", changed)
			}
			if string(before.Parameters) != c.given {
				t.Error("the announced schema was changed")
			}
		})
	}
}

func TestCallsAreBounded(t *testing.T) {
	tools, _ := pipeline.Build(schemas.ToolPolicy{TimeoutMs: 500},
		[]schemas.ToolDefinition{{Name: "a"}, {Name: "b", TimeoutMs: 7}})
	if tools[0].TimeoutMs != 500 || tools[1].TimeoutMs != 7 {
		t.Errorf("limits %d and %d, want 500 and 7", tools[0].TimeoutMs, tools[1].TimeoutMs)
	}
}
