package listing

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// Tools is `runner tools`: it lists announced tools, and unserved tools with waiting calls.
type Tools struct {
	Looking `embed:""`
	Session string `brief:"" help:"Show the tools of this session's latest run, and what each layer changed."`
}

// Check validates the session id.
func (t *Tools) Check(*cli.Call) []error {
	if t.Session == "" {
		return nil
	}
	if err := schemas.CheckSession(t.Session); err != nil {
		return []error{fmt.Errorf("--session: %w", err)}
	}
	return nil
}

// Run prints a table or JSON.
func (t *Tools) Run(ctx context.Context, io *cli.IO) error {
	return t.look(ctx, "tools", func(ctx context.Context, conn *bus.Conn) error {
		if t.Session != "" {
			return showSessionTools(ctx, conn, t.Session, t.JSON, io.Stdout)
		}
		served, err := servedTools(ctx, conn)
		switch {
		case err != nil:
			return err
		case t.JSON:
			return printLines(served, io.Stdout)
		}
		return PrintTools(served, io.Stdout)
	})
}

// ServedTool is a tool in one version and workspace as `runner tools --json` prints it.
type ServedTool struct {
	Name      string         `json:"name"`
	Version   string         `json:"version,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	Effect    schemas.Effect `json:"effect"`
	Waiting   uint64         `json:"waiting"` // calls waiting for a worker
	AtWork    int            `json:"atWork"`  // calls that a worker has received and not settled
	Workers   []ServedBy     `json:"workers"`
}

// ServedBy is a worker that announces a tool.
type ServedBy struct {
	ID    string `json:"id"`
	Since string `json:"since"` // RFC 3339
}

func servedTools(ctx context.Context, conn *bus.Conn) ([]ServedTool, error) {
	box := registry.NewToolbox(conn, nil)
	defer box.Close()
	announced, err := box.Announcements(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w; was a runner or worker started with the server at %s?", err, dial.Connected(conn.NATS()))
	}
	loads, err := dispatch.QueueLoads(ctx, conn)
	if err != nil {
		return nil, err
	}
	return gather(announced, loads), nil
}

// gather combines announcements and queue loads by tool. It omits unserved tools without waiting calls.
func gather(announced []schemas.ToolAnnouncement, loads []dispatch.QueueLoad) []ServedTool {
	queues := map[schemas.ToolQueue]*ServedTool{}
	of := func(q schemas.ToolQueue) *ServedTool {
		if queues[q] == nil {
			queues[q] = &ServedTool{Name: q.Tool, Version: q.Version, Workspace: q.Workspace, Workers: []ServedBy{}}
		}
		return queues[q]
	}
	for _, a := range announced {
		tool := of(a.Queue())
		tool.Effect = cmp.Or(a.EffectClass(), schemas.EffectUnsafe)
		tool.Workers = append(tool.Workers, ServedBy{a.Worker, a.Since})
	}
	for _, l := range loads {
		if queues[l.Queue] != nil || l.Waiting > 0 || l.AtWork > 0 {
			of(l.Queue).Waiting, of(l.Queue).AtWork = l.Waiting, l.AtWork
		}
	}
	list := make([]ServedTool, 0, len(queues))
	for _, tool := range queues {
		list = append(list, *tool)
	}
	slices.SortFunc(list, func(a, b ServedTool) int { return a.queue().Compare(b.queue()) })
	return list
}

func (t ServedTool) queue() schemas.ToolQueue {
	return schemas.ToolQueue{Tool: t.Name, Version: t.Version, Workspace: t.Workspace}
}

// PrintTools prints a line for each worker of each tool; the columns of the tool are in its first line.
func PrintTools(served []ServedTool, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "TOOL\tVERSION\tWORKSPACE\tEFFECT\tWAITING\tAT WORK\tWORKER\tSINCE\n")
	for _, t := range served {
		tool := []any{t.Name, cmp.Or(t.Version, "-"), cmp.Or(t.Workspace, "-"), cmp.Or(string(t.Effect), "-"), t.Waiting,
			t.AtWork}
		if len(t.Workers) == 0 {
			cli.Row(table, append(tool, "nobody", "-")...)
		}
		for i, w := range t.Workers {
			if i > 0 {
				tool = []any{"", "", "", "", "", ""}
			}
			cli.Row(table, append(tool, w.ID, w.Since)...)
		}
	}
	return table.Flush()
}
