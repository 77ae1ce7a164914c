package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/schemas"
)

// toolsSettings are the settings of `runner tools`.
type toolsSettings struct {
	reading
	session string
}

func (t *toolsSettings) define(s *config.Set) {
	t.reading.define(s)
	s.String(&t.session, "session", "", "show the tools of this session's latest run, and how each layer of the pipeline came by them")
	s.Check(func() error {
		if t.session == "" {
			return nil
		}
		if err := schemas.CheckSession(t.session); err != nil {
			return fmt.Errorf("--session: %w", err)
		}
		return nil
	})
}

// servedTool is a tool in one version and workspace as `runner tools --json` shows it.
type servedTool struct {
	Name      string         `json:"name"`
	Version   string         `json:"version,omitempty"`
	Workspace string         `json:"workspace,omitempty"`
	Effect    schemas.Effect `json:"effect"`
	Waiting   uint64         `json:"waiting"` // calls that no worker has taken
	AtWork    int            `json:"atWork"`  // calls that workers have not settled
	Workers   []servedBy     `json:"workers"`
}

type servedBy struct {
	ID    string `json:"id"`
	Since string `json:"since"` // RFC 3339
}

// listTools prints the tools that workers announce, and those with calls that wait for a worker: a table, or a JSON object a
// line.
func listTools(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	var t toolsSettings
	s := config.New("runner tools", "runner tools lists the tools that workers announce.")
	t.define(s)
	return t.look(ctx, s, args, getenv, out, func(ctx context.Context, conn *bus.Conn) error {
		if t.session != "" {
			return showSessionTools(ctx, conn, t.session, t.json, out)
		}
		served, err := servedTools(ctx, conn)
		switch {
		case err != nil:
			return err
		case t.json:
			return printLines(served, out)
		}
		return printTools(served, out)
	})
}

func servedTools(ctx context.Context, conn *bus.Conn) ([]servedTool, error) {
	box := bus.NewToolbox(conn, nil)
	defer box.Close()
	announced, err := box.Announcements(ctx)
	if err != nil {
		return nil, fmt.Errorf("%w; is there a runner or a worker at %s?", err, conn.NATS().ConnectedUrlRedacted())
	}
	loads, err := bus.QueueLoads(ctx, conn)
	if err != nil {
		return nil, err
	}
	return gather(announced, loads), nil
}

// gather puts together what is known of each tool. What nobody serves is left out, unless calls wait for it.
func gather(announced []schemas.ToolAnnouncement, loads []bus.QueueLoad) []servedTool {
	queues := map[schemas.ToolQueue]*servedTool{}
	of := func(q schemas.ToolQueue) *servedTool {
		if queues[q] == nil {
			queues[q] = &servedTool{Name: q.Tool, Version: q.Version, Workspace: q.Workspace, Workers: []servedBy{}}
		}
		return queues[q]
	}
	for _, a := range announced {
		tool := of(a.Queue())
		tool.Effect = cmp.Or(a.EffectClass(), schemas.EffectUnsafe)
		tool.Workers = append(tool.Workers, servedBy{a.Worker, a.Since})
	}
	for _, l := range loads {
		if queues[l.Queue] != nil || l.Waiting > 0 || l.AtWork > 0 {
			of(l.Queue).Waiting, of(l.Queue).AtWork = l.Waiting, l.AtWork
		}
	}
	list := make([]servedTool, 0, len(queues))
	for _, tool := range queues {
		list = append(list, *tool)
	}
	slices.SortFunc(list, func(a, b servedTool) int { return bus.CompareQueues(a.queue(), b.queue()) })
	return list
}

func (t servedTool) queue() schemas.ToolQueue {
	return schemas.ToolQueue{Tool: t.Name, Version: t.Version, Workspace: t.Workspace}
}

// printTools prints a line for each worker of each tool; what is said of the tool stands in its first.
func printTools(served []servedTool, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "TOOL\tVERSION\tWORKSPACE\tEFFECT\tWAITING\tAT WORK\tWORKER\tSINCE\n")
	for _, t := range served {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%d\t%d\t", t.Name, cmp.Or(t.Version, "-"), cmp.Or(t.Workspace, "-"),
			cmp.Or(string(t.Effect), "-"), t.Waiting, t.AtWork)
		if len(t.Workers) == 0 {
			fmt.Fprintf(table, "nobody\t-\n")
		}
		for i, w := range t.Workers {
			if i > 0 {
				fmt.Fprintf(table, "\t\t\t\t\t\t")
			}
			fmt.Fprintf(table, "%s\t%s\n", w.ID, w.Since)
		}
	}
	return table.Flush()
}
