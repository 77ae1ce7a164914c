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
	"github.com/loopbus/loopbus/bus/dial"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// ListedProfile is a profile as `runner profiles --json` prints it.
type ListedProfile struct {
	Name     string           `json:"name"`
	Revision uint64           `json:"revision"`
	Profile  *schemas.Profile `json:"profile,omitempty"`
	Error    string           `json:"error,omitempty"`
}

// Profiles is `runner profiles`: it lists the profiles, including those that cannot be decoded.
type Profiles struct {
	Looking `embed:""`
}

// Run prints a table or JSON.
func (p *Profiles) Run(ctx context.Context, io *cli.IO) error {
	return p.look(ctx, "profiles", func(ctx context.Context, conn *bus.Conn) error {
		profiles := registry.NewProfiles(conn, errors.New("no such profile"), nil)
		defer profiles.Close()
		list, err := profiles.List(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("list profiles: %w; was a runner started with the server at %s?", err, dial.Connected(conn.NATS()))
		case p.JSON:
			listed := make([]ListedProfile, len(list))
			for i, n := range list {
				listed[i] = listedOf(n)
			}
			return printLines(listed, io.Stdout)
		}
		return printProfiles(list, io.Stdout)
	})
}

func listedOf(n registry.NamedProfile) ListedProfile {
	if n.Err != nil {
		return ListedProfile{Name: n.Name, Revision: n.Revision, Error: n.Err.Error()}
	}
	return ListedProfile{Name: n.Name, Revision: n.Revision, Profile: &n.Profile}
}

func printProfiles(list []registry.NamedProfile, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "PROFILE\tREVISION\tMODEL\tTOOLS\tDESCRIPTION\n")
	for _, n := range list {
		if n.Err != nil {
			cli.Row(table, n.Name, n.Revision, "-", "-", "cannot be read: "+n.Err.Error())
			continue
		}
		model, tools := "-", "all"
		if n.Profile.Model != nil {
			model = n.Profile.Model.String()
		}
		if n.Profile.Tools != nil {
			tools = cmp.Or(strings.Join(n.Profile.Tools, ","), "none")
		}
		cli.Row(table, n.Name, n.Revision, model, tools, cmp.Or(n.Profile.Description, "-"))
	}
	return table.Flush()
}
