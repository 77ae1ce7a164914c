package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/replay/internal/family"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// treeCommand is `replay tree`.
type treeCommand struct {
	Where    where    `embed:""`
	JSON     bool     `name:"json" brief:"" help:"Print one JSON object per tree, with children."`
	Sessions []string `arg:"" optional:"" placeholder:"[SESSION]"`
}

// Check accepts at most one session.
func (c *treeCommand) Check(call *cli.Call) []error {
	return count(call, c.Sessions, "[SESSION]", 0, 1)
}

// Run prints trees of sessions.
func (c *treeCommand) Run(ctx context.Context, io *cli.IO) error {
	return invoked(ctx, io, options{where: c.Where, json: c.JSON, all: true}, func(ctx context.Context, a *app) error {
		return a.tree(ctx, c.Sessions)
	})
}

// tree prints all trees, or the tree of one session with its ancestors and descendants. A damaged log does not hide
// the others, and makes the command fail at the end.
func (a *app) tree(ctx context.Context, of []string) error {
	sessions, err := a.sessions(ctx)
	if err != nil {
		return err
	}
	if len(of) > 0 {
		if sessions, err = a.familyOf(ctx, of[0], sessions); err != nil {
			return err
		}
	}
	var nodes []*family.Node
	var problems []error
	for _, info := range sessions {
		n, err := family.Read(info.Session, a.store.Read(ctx, info.Session, 1))
		switch {
		case errors.Is(err, eventstore.ErrDamaged):
			n.Status, n.Problem = schemas.SessionDamaged, err.Error()
			problems = append(problems, err)
		case err != nil:
			return err
		}
		nodes = append(nodes, n)
	}
	if err := a.printTrees(family.Trees(nodes)); err != nil {
		return err
	}
	return errors.Join(problems...)
}

// familyOf returns the sessions in the tree of a session. Of the others it reads only the beginning.
func (a *app) familyOf(ctx context.Context, session string, all []eventstore.SessionInfo) (of []eventstore.SessionInfo,
	err error) {
	parents := map[string]*schemas.SessionParent{}
	for _, info := range all {
		p, err := family.Parent(a.store.Read(ctx, info.Session, 1))
		if err != nil && !errors.Is(err, eventstore.ErrDamaged) {
			return nil, err
		}
		parents[info.Session] = p
	}
	if _, ok := parents[session]; !ok {
		return nil, noLog(session)
	}
	in := family.Of(session, parents)
	for _, info := range all {
		if in[info.Session] {
			of = append(of, info)
		}
	}
	return of, nil
}

func (a *app) printTrees(roots []*family.Node) error {
	if a.o.json {
		enc := json.NewEncoder(cli.JSONOut(a.out, a.toTerm))
		for _, n := range roots {
			if err := enc.Encode(n); err != nil {
				return err
			}
		}
		return nil
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SESSION\tFROM\tSTATE\tTURNS\tCOST\tTITLE")
	for _, n := range roots {
		printNode(w, n, "", "")
	}
	return w.Flush()
}

// printNode prints a session with the prefix own, and its children with the prefix below.
func printNode(w io.Writer, n *family.Node, own, below string) {
	title := n.Name
	if title == "" {
		title = n.Title
	}
	fmt.Fprintf(w, "%s%s\t%s\t%s\t%d\t%s\t%s\n", own, n.Session, from(n.Parent, own == ""), n.Status, n.Turns,
		dollars(n.Usage.Cost.Total), oneLine(title, 60))
	for i, child := range n.Children {
		if i == len(n.Children)-1 {
			printNode(w, child, below+"└─ ", below+"   ")
		} else {
			printNode(w, child, below+"├─ ", below+"│  ")
		}
	}
}

// from describes where a session was branched from its parent, and names a parent that no longer exists.
func from(p *schemas.SessionParent, root bool) string {
	if p == nil {
		return "-"
	}
	text := fmt.Sprintf("event %d", p.Seq)
	if p.CallID != "" {
		text = "call " + oneLine(p.CallID, 64)
	}
	if root {
		text += " of " + oneLine(p.Session, 64) + ", which is gone"
	}
	return text
}
