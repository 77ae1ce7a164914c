package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/replay/internal/compare"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// diffCommand is `replay diff`.
type diffCommand struct {
	Where    where    `embed:""`
	JSON     bool     `name:"json" brief:"" help:"Print one JSON object."`
	Full     bool     `brief:"" help:"Show results and arguments in full."`
	Lines    int      `default:"20" brief:"" help:"Limit the lines shown of a tool's result; 0 shows all."`
	Sessions []string `arg:"" optional:"" placeholder:"A B"`
}

// Check requires two sessions or archive files; a file name is an argument that is not a valid session id.
func (c *diffCommand) Check(*cli.Call) (errs []error) {
	if len(c.Sessions) != 2 {
		errs = append(errs, errors.New("wrong number of arguments: replay diff A B"))
	}
	if c.Where.Archive != "" {
		errs = append(errs, errors.New("--archive: diff takes archive files as arguments, like sessions"))
	}
	return errs
}

// Run compares two sessions.
func (c *diffCommand) Run(ctx context.Context, io *cli.IO) error {
	o := options{where: c.Where, json: c.JSON, full: c.Full, lines: c.Lines, sessions: c.Sessions}
	for _, name := range c.Sessions {
		if schemas.CheckSession(name) == nil {
			return invoked(ctx, io, o, runDiff)
		}
	}
	return printed(io, o, func(a *app) error { return runDiff(ctx, a) })
}

// runDiff prints where two conversations diverge and what follows. It fails with status 1 if they differ.
func runDiff(ctx context.Context, a *app) error {
	var both [2]*compare.Conversation
	for i, name := range a.o.sessions {
		var err error
		if both[i], err = a.conversation(ctx, name); err != nil {
			return err
		}
	}
	d := compare.Compare(both[0], both[1])
	show := a.showDiff
	if a.o.json {
		show = a.jsonDiff
	}
	if err := show(both, d); err != nil || d.Same() {
		return err
	}
	return errReported
}

// conversation reads a session, or the session of an archive.
func (a *app) conversation(ctx context.Context, name string) (c *compare.Conversation, err error) {
	if schemas.CheckSession(name) == nil {
		c, err = compare.Read(name, a.store.Read(ctx, name, 1))
		if err == nil && c.Events == 0 {
			err = noLog(name)
		}
		return c, err
	}
	err = withArchive(ctx, name, a.log, func(ctx context.Context, conn *bus.Conn) error {
		store, err := eventstore.New(conn.Events(), eventstore.Options{Logger: a.log})
		if err != nil {
			return err
		}
		archived := &logs{conn: conn, store: store}
		sessions, err := archived.sessions(ctx)
		if err == nil && len(sessions) != 1 {
			err = fmt.Errorf("%s has %s", name, plural(len(sessions), "session"))
		}
		if err != nil {
			return err
		}
		id := sessions[0].Session
		c, err = compare.Read(id, store.Read(ctx, id, 1))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%w (%q is not a session id, so it was opened as an archive file)", err, name)
	}
	return c, nil
}

// showDiff prints the last common message, what follows on each side, and the totals.
func (a *app) showDiff(both [2]*compare.Conversation, d compare.Difference) error {
	for i, c := range both {
		fmt.Fprintf(a.out, "%s %s  %s%s\n", sides[i], c.Session, plural(len(c.Items), "message"), branchedFrom(c.Parent))
	}
	if d.Same() {
		fmt.Fprintf(a.out, "\nthe same\n")
		return a.showTotals(both, 0)
	}
	fmt.Fprintf(a.out, "\n%s in common", plural(d.Common, "message"))
	if d.Common > 0 {
		fmt.Fprintf(a.out, ", the last is\n%s", prefixed("  ", a.blocks(both[0].Items[d.Common-1:d.Common])))
	} else {
		fmt.Fprintln(a.out)
	}
	fmt.Fprintf(a.out, "\nthey part at message %d: %s\n", d.Common+1, d.What)
	for i, c := range both {
		if items := c.Items[min(d.Common, len(c.Items)):]; len(items) > 0 {
			fmt.Fprintf(a.out, "\n%s", a.side(i, prefixed(sides[i]+" ", a.blocks(items))))
		}
	}
	return a.showTotals(both, d.Common)
}

var sides = [2]string{"-", "+"}

// side colours the lines of the first session red and of the second blue.
func (a *app) side(i int, text string) string {
	if !a.style {
		return text
	}
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(a.style.paint([2]string{"31", "36"}[i], strings.TrimSuffix(line, "\n")) + "\n")
	}
	return b.String()
}

func branchedFrom(p *schemas.SessionParent) string {
	if p == nil {
		return ""
	}
	return fmt.Sprintf(", branched from %s at event %d", oneLine(p.Session, maxLine), p.Seq)
}

// blocks returns messages as a transcript shows them, without colours.
func (a *app) blocks(items []compare.Item) string {
	var b bytes.Buffer
	plain := *a
	plain.style, plain.out = false, bufio.NewWriter(&b)
	t := newTranscript(&plain)
	for _, i := range items {
		_ = t.write(t.message(i.Start, i.Message, i.Announced)) // to memory
	}
	_ = plain.out.Flush()
	return b.String()
}

func prefixed(prefix, text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		b.WriteString(strings.TrimRight(prefix+line, " \n") + "\n")
	}
	return b.String()
}

// showTotals prints what each session used since they diverged.
func (a *app) showTotals(both [2]*compare.Conversation, since int) error {
	x, y := both[0].Since(since), both[1].Since(since)
	w := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	what := "in all"
	if since > 0 {
		what = "since then"
	}
	fmt.Fprintf(w, "\n%s\t%s\t%s\n", what, both[0].Session, both[1].Session)
	row := func(name string, of func(compare.Totals) string) { fmt.Fprintf(w, "%s\t%s\t%s\n", name, of(x), of(y)) }
	row("models", func(t compare.Totals) string { return dash(oneLine(strings.Join(t.Models, " "), maxLine)) })
	row("turns", func(t compare.Totals) string { return fmt.Sprint(t.Turns) })
	row("calls", func(t compare.Totals) string {
		if t.FailedCalls > 0 {
			return fmt.Sprintf("%d, %d failed", t.Calls, t.FailedCalls)
		}
		return fmt.Sprint(t.Calls)
	})
	row("tokens", func(t compare.Totals) string { return fmt.Sprintf("%d in, %d out", t.Usage.Input, t.Usage.Output) })
	row("cost", func(t compare.Totals) string { return dollars(t.Usage.Cost.Total) })
	row("ended", func(t compare.Totals) string {
		how := string(t.Ended)
		if t.Error != "" {
			how += ": " + t.Error
		}
		return dash(oneLine(how, 60))
	})
	return w.Flush()
}

func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func (a *app) jsonDiff(both [2]*compare.Conversation, d compare.Difference) error {
	return json.NewEncoder(cli.JSONOut(a.out, a.toTerm)).Encode(compare.ReportOf(both, d))
}
