package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

// List is `runner sessions list`, which a runner answers.
type List struct {
	Where   `embed:""`
	Status  []string      `brief:"" help:"Show sessions that are idle, failed, running, waiting_for_tools, …"`
	Profile string        `brief:"" help:"Show sessions that follow this profile."`
	Text    string        `brief:"" help:"Show sessions with this text in the title or last message."`
	Idle    time.Duration `help:"Show sessions without activity for this long."`
	Limit   int           `default:"50" help:"Show at most this many; 0 shows all."`
	JSON    bool          `name:"json" brief:"" help:"Print one JSON object per line."`
}

// Run prints a table or JSON.
func (l *List) Run(ctx context.Context, io *cli.IO) error {
	return l.with(ctx, io, func(ctx context.Context, p *place) error {
		all, err := l.all(ctx, p.conn)
		if err != nil {
			return err
		}
		if l.JSON {
			lines := json.NewEncoder(cli.JSONOut(io.Stdout, cli.IsTerminal(io.Stdout)))
			for _, s := range all {
				if err := lines.Encode(s); err != nil {
					return err
				}
			}
			return nil
		}
		return printSessions(all, io.Stdout)
	})
}

func (l *List) all(ctx context.Context, conn *bus.Conn) (all []schemas.SessionSummary, err error) {
	c, err := client.New(conn.NATS(), client.Options{Prefix: conn.Subjects().Prefix()})
	if err != nil {
		return nil, err
	}
	q := schemas.SessionsQuery{Profile: l.Profile, Text: l.Text}
	for _, s := range l.Status {
		q.Status = append(q.Status, schemas.SessionStatus(s))
	}
	if l.Idle > 0 {
		q.Before = time.Now().Add(-l.Idle)
	}
	for {
		if l.Limit > 0 {
			q.Limit = min(l.Limit-len(all), schemas.MaxQueryLimit)
		}
		page, err := c.Sessions(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Sessions...)
		if q.Cursor = page.Next; q.Cursor == "" || l.Limit > 0 && len(all) >= l.Limit {
			return all, nil
		}
	}
}

func printSessions(all []schemas.SessionSummary, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "SESSION\tSTATUS\tEVENTS\tRUNS\tLAST ACTIVITY\tPROFILE\tTITLE\n")
	for _, s := range all {
		cli.Row(table, s.Session, s.Status, s.Seq, s.Runs,
			s.LastActivity.Local().Format(time.DateTime), cmp.Or(s.Profile, "-"), title(s.Title))
	}
	return table.Flush()
}

// title returns the beginning of a title on one line, with unprintable characters replaced.
func title(text string) string {
	const most = 60
	runes := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, text))
	if len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return string(runes)
}
