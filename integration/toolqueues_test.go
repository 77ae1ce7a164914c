package integration_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// searchTool sends to gate when a call starts, and again to end the call.
func searchTool(version, workspace string, gate chan struct{}) tools.Tool {
	return tools.Tool{
		ToolDefinition: schemas.ToolDefinition{Name: "search", Version: version, Workspace: workspace,
			Effect: schemas.EffectReadOnly},
		Execute: func(ctx context.Context, _ tools.Call) (schemas.ToolResult, error) {
			for range 2 { // at the start and before the end
				select {
				case gate <- struct{}{}:
				case <-ctx.Done():
					return schemas.ToolResult{}, tools.Interrupted(ctx)
				}
			}
			return schemas.TextResult("found"), nil
		},
	}
}

// instantTool is a searchTool without a gate.
func instantTool(version, workspace string) tools.Tool {
	tool := searchTool(version, workspace, nil)
	tool.Execute = func(context.Context, tools.Call) (schemas.ToolResult, error) {
		return schemas.TextResult("found"), nil
	}
	return tool
}

// untilAnnounced waits until the runner has this many announcements of the tool.
func untilAnnounced(t *testing.T, s *system.System, n int) {
	t.Helper()
	system.Eventually(t, "the tools are announced", func() bool {
		all, err := s.Toolbox.Announcements(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return len(slices.DeleteFunc(all, func(a schemas.ToolAnnouncement) bool { return a.Name != "search" })) == n
	})
}

// servedBy returns the workers that have answered calls, in the order of the log.
func servedBy(log []schemas.Event) (workers []string) {
	for _, end := range system.DataOf[*schemas.ToolExecutionEnd](log) {
		workers = append(workers, end.Worker)
	}
	return workers
}

// TestCallsReachTheSessionsWorkspace has workers of one tool in two workspaces and one without a workspace. The calls
// of a session go to the workspace of set_workspace, from the next run on.
func TestCallsReachTheSessionsWorkspace(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: scripted.New(
		scripted.Calls("", schemas.ToolCall{Name: "search"}), scripted.Text("done"),
		scripted.Calls("", schemas.ToolCall{Name: "search"}), scripted.Text("done"),
		scripted.Calls("", schemas.ToolCall{Name: "search"}), scripted.Text("done"),
	)})
	for worker, workspace := range map[string]string{"w-none": "", "w-a": "a", "w-b": "b"} {
		system.StartWorker(t, s.Client, worker, instantTool("", workspace))
	}
	untilAnnounced(t, s, 3)
	s.Prompted(t, "s1", "go", 1)
	s.Send(t, "s1", &schemas.SetWorkspace{Workspace: "b"})
	s.Prompted(t, "s1", "go", 2)
	s.Send(t, "s1", &schemas.SetWorkspace{})
	log := s.Prompted(t, "s1", "go", 3)
	if d := cmp.Diff([]string{"w-none", "w-b", "w-none"}, servedBy(log)); d != "" {
		t.Errorf("served by (-want +got):\n%s", d)
	}
	var told []string // tool lists of the model, without repetitions
	for _, start := range system.DataOf[*schemas.AgentStart](log) {
		if c := start.Config; c != nil {
			for _, def := range c.Tools {
				told = append(told, fmt.Sprintf("%s in %q of %q", def.Name, def.Workspace, c.Workspace))
			}
		}
	}
	want := []string{`echo in "" of ""`, `search in "" of ""`, `search in "b" of "b"`, `echo in "" of ""`,
		`search in "" of ""`}
	if d := cmp.Diff(want, told); d != "" {
		t.Errorf("tools of the runs (-want +got):\n%s", d)
	}
}

// TestARunKeepsTheVersionItBeganWith starts a worker of another version in the middle of a run. The later calls of the
// run go to the version of the first one, those of the next run to the new version.
func TestARunKeepsTheVersionItBeganWith(t *testing.T) {
	t.Parallel()
	s := system.StartAlone(t, system.Options{Model: scripted.New(
		scripted.Calls("", schemas.ToolCall{Name: "search"}), scripted.Calls("", schemas.ToolCall{Name: "search"}),
		scripted.Text("done"),
		scripted.Calls("", schemas.ToolCall{Name: "search"}), scripted.Text("done"),
	)})
	gate := make(chan struct{})
	system.StartWorker(t, s.Client, "w-9", searchTool("9", "", gate))
	untilAnnounced(t, s, 1)
	s.Prompt(t, "s1", "go")
	<-gate // the first call has begun
	system.StartWorker(t, s.Client, "w-10", instantTool("10", ""))
	untilAnnounced(t, s, 2)
	for range 3 { // the first call ends, the second one begins and ends
		<-gate
	}
	s.Until(t, "s1", "the end of the run", system.Ends(1))
	log := s.Prompted(t, "s1", "go", 2)
	if d := cmp.Diff([]string{"w-9", "w-9", "w-10"}, servedBy(log)); d != "" {
		t.Errorf("served by (-want +got):\n%s", d)
	}
}
