package listing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// SessionTools describes the tools of a session's latest run as `runner tools --session --json` prints them.
type SessionTools struct {
	Session string                   `json:"session"`
	RunID   string                   `json:"runId"`
	Profile string                   `json:"profile,omitempty"`
	Layers  []schemas.ToolLayer      `json:"layers"`
	Tools   []schemas.ToolDefinition `json:"tools"`
	Sources []schemas.PromptSource   `json:"sources,omitempty"` // files included in the system prompt
}

// showSessionTools prints the tools of a session's latest run and what each layer of the pipeline did, read from its
// log.
func showSessionTools(ctx context.Context, conn *bus.Conn, session string, asJSON bool, out io.Writer) error {
	shown, err := toolsOfSession(ctx, conn, session)
	if err != nil {
		return err
	}
	if asJSON {
		return printLines([]*SessionTools{shown}, out)
	}
	return shown.Print(out)
}

// toolsOfSession reads the newest run configuration from the log. A run that records none has that of the run before.
func toolsOfSession(ctx context.Context, conn *bus.Conn, session string) (*SessionTools, error) {
	store, err := eventstore.New(conn.Events(), eventstore.Options{Subjects: conn.Subjects(), ByConsumer: true})
	if err != nil {
		return nil, err
	}
	var shown *SessionTools
	for e, err := range store.Read(ctx, session, 1) {
		if err != nil {
			return nil, fmt.Errorf("read session %s: %w", session, err)
		}
		start, ok := e.Data.(*schemas.AgentStart)
		switch {
		case ok && start.Config != nil:
			shown = &SessionTools{session, e.RunID, start.Config.Profile, start.Config.Layers, start.Config.Tools,
				start.Config.Sources}
		case ok && shown != nil:
			shown.RunID = e.RunID
		}
	}
	if shown == nil {
		return nil, fmt.Errorf("session %s has no run yet: its tools are selected when its first run starts", session)
	}
	return shown, nil
}

// Print writes them for people.
func (s *SessionTools) Print(out io.Writer) error {
	_, err := fmt.Fprintf(out, "session %s, run %s, profile %s\n\n", s.Session, cli.OneLine(s.RunID),
		cli.OneLine(cmp.Or(s.Profile, "none")))
	for i, layer := range s.Layers {
		_, e := fmt.Fprintf(out, "%d %s\n%s", i+1, cli.OneLine(layer.Name), describe(layer))
		err = errors.Join(err, e)
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "\nTOOL\tVERSION\tWORKSPACE\tEFFECT\tTIME LIMIT\n")
	for _, t := range s.Tools {
		limit := "-"
		if t.TimeoutMs > 0 {
			limit = fmt.Sprintf("%gs", float64(t.TimeoutMs)/1000)
		}
		cli.Row(table, t.Name, cmp.Or(t.Version, "-"), cmp.Or(t.Workspace, "-"),
			cmp.Or(t.EffectClass(), schemas.EffectUnsafe), limit)
	}
	err = errors.Join(err, table.Flush())
	if len(s.Sources) > 0 {
		fmt.Fprintf(table, "\nIN THE SYSTEM PROMPT\tNAME\tFILE\tSHA-256\n")
		for _, f := range s.Sources {
			cli.Row(table, f.Kind, cmp.Or(f.Name, "-"), f.Path, fmt.Sprintf("%.12s", f.SHA256))
		}
	}
	return errors.Join(err, table.Flush())
}

// describe lists what a layer did, one line per kind of change.
func describe(l schemas.ToolLayer) string {
	var b strings.Builder
	for _, did := range []struct {
		what  string
		names []string
	}{{"added", l.Added}, {"changed", l.Changed}} {
		if len(did.names) > 0 {
			fmt.Fprintf(&b, "    %s %s\n", did.what, cli.OneLine(strings.Join(did.names, ", ")))
		}
	}
	for _, removed := range l.Removed {
		fmt.Fprintf(&b, "    removed %s\n", cli.OneLine(removed.Name+": "+removed.Reason))
	}
	return b.String()
}
