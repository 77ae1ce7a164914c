package agents_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// in returns a tool that is announced for a workspace.
func in(workspace string, tool tools.Tool) tools.Tool {
	tool.Workspace = workspace
	return tool
}

// ofClient returns a tool of the client with this name.
func ofClient(name string, tool tools.Tool) tools.Tool {
	tool.Workspace, tool.Channel = name, true
	return tool
}

func layersOf(log []schemas.Event) map[string]schemas.ToolLayer {
	layers := map[string]schemas.ToolLayer{}
	for _, start := range system.DataOf[*schemas.AgentStart](log) {
		if start.Config != nil {
			for _, l := range start.Config.Layers {
				layers[l.Name] = l
			}
		}
	}
	return layers
}

// The log has for every tool which layer added it to the session, or which one removed it.
func TestTheLogTellsWhatEachLayerDid(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	jail := system.Connect(t, r.URL, "jail")
	system.StartWorker(t, jail, "jail", in("jail", r.note("note", "")))
	r.awaitTool("note", "jail")
	r.profile("boxed", schemas.Profile{Scopes: []string{"other"},
		Sandbox:    &schemas.SandboxPolicy{Tools: []string{"note", "echo"}, Workspace: "jail"},
		Extensions: []string{"agent_interrupt"}})
	r.follow("s1", "boxed")
	log := r.Prompted(t, "s1", `call note {"v":"1"}`, 1)
	want := map[string]schemas.ToolLayer{
		"base": {Name: "base", Added: []string{"careful", "echo", "note"}},
		"sandbox": {Name: "sandbox", Changed: []string{"note"}, Removed: []schemas.ToolRemoval{
			{Name: "echo", Reason: "no worker serves it in workspace jail, where the profile has it executed"}}},
		"extension": {Name: "extension", Added: []string{"agent_interrupt"}},
		"channel":   {Name: "channel"},
		"policy": {Name: "policy", Removed: []schemas.ToolRemoval{
			{Name: "careful", Reason: "the session is not granted scope notes:write"}}},
		"schema": {Name: "schema"}, "abort": {Name: "abort"},
	}
	if d := cmp.Diff(want, layersOf(log)); d != "" {
		t.Errorf("layers (-want +got):\n%s", d)
	}
	if ends := system.DataOf[*schemas.ToolExecutionEnd](log); len(ends) != 1 || ends[0].Worker != "jail" ||
		ends[0].IsError {
		t.Errorf("executed by %+v", ends)
	}
}

// awaitTool waits until the runner has the announcement of a workspace's tool.
func (r *rig) awaitTool(name, workspace string) {
	r.t.Helper()
	system.Eventually(r.t, "the runner knows "+name, func() bool {
		defs, err := r.Toolbox.Definitions(r.t.Context())
		if err != nil {
			return false
		}
		for _, d := range defs {
			if d.Name == name && d.Workspace == workspace {
				return true
			}
		}
		return false
	})
}

// The tools of a client belong to the sessions that it opened: it gets their calls, and other sessions do not have the
// tools.
func TestAClientBringsToolsOfItsOwn(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	ui := system.Connect(t, r.URL, "ui")
	stop := system.StartWorker(t, ui, "ui-7", ofClient("ui-7", r.note("pick_colour", "")),
		ofClient("ui-7", r.note("note", "")))
	r.awaitTool("pick_colour", "ui-7")

	r.Send(t, "s1", &schemas.Prompt{Input: client.Text(`call pick_colour {"v":"red"}`),
		Binding: schemas.Binding{Channel: "ui-7"}})
	log := r.Until(t, "s1", "the end of the run", system.Ends(1))
	if ends := system.DataOf[*schemas.ToolExecutionEnd](log); len(ends) != 1 || ends[0].Worker != "ui-7" ||
		ends[0].IsError {
		t.Errorf("executed by %+v", ends)
	}
	want := schemas.ToolLayer{Name: "channel", Added: []string{"pick_colour"}, Removed: []schemas.ToolRemoval{
		{Name: "note", Reason: "the session has a tool of that name already, which the client's does not replace"}}}
	if d := cmp.Diff(want, layersOf(log)["channel"]); d != "" {
		t.Errorf("layer (-want +got):\n%s", d)
	}

	log = r.Prompted(t, "s2", `call pick_colour {"v":"blue"}`, 1)
	if ends := system.DataOf[*schemas.ToolExecutionEnd](log); len(ends) != 0 || strings.Contains(r.executed(), "blue") {
		t.Errorf("another session has called it: %+v", ends)
	}
	stop()
}

// A client that may only send prompts cannot choose a workspace: workers of a workspace serve the sessions of that
// workspace, and a prompt that names it as the channel of a client does not cause calls to them.
func TestAWorkspaceIsNoChannel(t *testing.T) {
	t.Parallel()
	r := start(t, nil)
	system.StartWorker(t, system.Connect(t, r.URL, "prod"), "prod", in("prod", r.note("deploy", "")))
	r.awaitTool("deploy", "prod")
	for session, only := range map[string]bool{"s1": false, "s2": true} {
		r.Send(t, session, &schemas.Prompt{Input: client.Text(`call deploy {"v":"evil"}`),
			Binding: schemas.Binding{Channel: "prod", ChannelOnly: only}})
		log := r.Until(t, session, "the end of the run", system.Ends(1))
		if ends := system.DataOf[*schemas.ToolExecutionEnd](log); r.executed() != "" || len(ends) != 0 {
			t.Errorf("%s: %+v, executed %q", session, ends, r.executed())
		}
		want := []schemas.ToolRemoval{{Name: "deploy",
			Reason: "its worker does not announce it as the tool of a channel"}}
		if d := cmp.Diff(want, layersOf(log)["channel"].Removed); d != "" {
			t.Errorf("%s: removed (-want +got):\n%s", session, d)
		}
	}
}
