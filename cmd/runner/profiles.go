package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/schemas"
)

// listedProfile is a profile as `runner profiles --json` shows it.
type listedProfile struct {
	Name     string           `json:"name"`
	Revision uint64           `json:"revision"`
	Profile  *schemas.Profile `json:"profile,omitempty"`
	Error    string           `json:"error,omitempty"`
}

// listProfiles prints the named agents of the bucket, and what cannot be read in it: a table, or a JSON object a line.
func listProfiles(ctx context.Context, args []string, getenv func(string) string, out io.Writer) error {
	var r reading
	s := config.New("runner profiles", "runner profiles lists the named agents that sessions may follow.")
	r.define(s)
	return r.look(ctx, s, args, getenv, out, func(ctx context.Context, conn *bus.Conn) error {
		profiles := bus.NewProfiles(conn, errors.New("no such profile"), nil)
		defer profiles.Close()
		list, err := profiles.List(ctx)
		switch {
		case err != nil:
			return fmt.Errorf("list profiles: %w; is there a runner at %s?", err, conn.NATS().ConnectedUrlRedacted())
		case r.json:
			listed := make([]listedProfile, len(list))
			for i, n := range list {
				listed[i] = listedOf(n)
			}
			return printLines(listed, out)
		}
		return printProfiles(list, out)
	})
}

func listedOf(n bus.NamedProfile) listedProfile {
	if n.Err != nil {
		return listedProfile{Name: n.Name, Revision: n.Revision, Error: n.Err.Error()}
	}
	return listedProfile{Name: n.Name, Revision: n.Revision, Profile: &n.Profile}
}

func printProfiles(list []bus.NamedProfile, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "PROFILE\tREVISION\tMODEL\tTOOLS\tDESCRIPTION\n")
	for _, n := range list {
		if n.Err != nil {
			fmt.Fprintf(table, "%s\t%d\t-\t-\tcannot be read: %v\n", n.Name, n.Revision, n.Err)
			continue
		}
		model, tools := "-", "all"
		if n.Profile.Model != nil {
			model = n.Profile.Model.String()
		}
		if n.Profile.Tools != nil {
			tools = cmp.Or(strings.Join(n.Profile.Tools, ","), "none")
		}
		fmt.Fprintf(table, "%s\t%d\t%s\t%s\t%s\n", n.Name, n.Revision, model, tools, cmp.Or(n.Profile.Description, "-"))
	}
	return table.Flush()
}
