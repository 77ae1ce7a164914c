package listing

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// ServiceName is the name of the micro service that every runner registers.
const ServiceName = "loopbus-runner"

// Metadata keys of that service.
const (
	MetaID       = "id"
	MetaModel    = "model"
	MetaPrefix   = "prefix"
	MetaSettings = "settings" // digest of the settings that decide how sessions behave
)

// List is `runner list`: it lists the runners that answer.
type List struct {
	Looking `embed:""`
}

// ServedRunner is a runner as `runner list --json` prints it.
type ServedRunner struct {
	ID       string `json:"id"`
	Version  string `json:"version"`
	Model    string `json:"model"`
	Settings string `json:"settings"` // digest of the settings that decide how sessions behave
}

// answerWait is how long a listing waits for one more answer; maxRunners limits the answers.
const (
	answerWait = 300 * time.Millisecond
	maxRunners = 10_000
)

// Run prints a table or JSON, and a warning if settings differ.
func (l *List) Run(ctx context.Context, io *cli.IO) error {
	return l.look(ctx, "list", func(ctx context.Context, conn *bus.Conn) error {
		runners, err := servedRunners(ctx, conn)
		switch {
		case err != nil:
			return err
		case l.JSON:
			return printLines(runners, io.Stdout)
		}
		return printRunners(runners, io.Stdout)
	})
}

// servedRunners queries all runners at once through the INFO subject of NATS micro services.
func servedRunners(ctx context.Context, conn *bus.Conn) ([]ServedRunner, error) {
	nc := conn.NATS()
	answers, err := nc.SubscribeSync(natsio.NewInbox(nc))
	if err != nil {
		return nil, err
	}
	defer func() { _ = answers.Unsubscribe() }()
	if err := nc.PublishRequest(micro.APIPrefix+".INFO."+ServiceName, answers.Subject, nil); err != nil {
		return nil, err
	}
	runners := []ServedRunner{}
	for len(runners) < maxRunners {
		one, cancel := context.WithTimeout(ctx, answerWait)
		m, err := answers.NextMsgWithContext(one)
		cancel()
		switch {
		case ctx.Err() != nil:
			return nil, ctx.Err()
		case errors.Is(err, context.DeadlineExceeded), errors.Is(err, nats.ErrNoResponders):
			slices.SortFunc(runners, func(a, b ServedRunner) int { return cmp.Compare(a.ID, b.ID) })
			return runners, nil
		case err != nil:
			return nil, fmt.Errorf("query the runners: %w", err)
		}
		var info micro.Info
		if json.Unmarshal(m.Data, &info) == nil && info.Metadata[MetaPrefix] == conn.Subjects().Prefix() {
			runners = append(runners, ServedRunner{ID: info.Metadata[MetaID], Version: info.Version,
				Model: info.Metadata[MetaModel], Settings: info.Metadata[MetaSettings]})
		}
	}
	return runners, nil
}

func printRunners(runners []ServedRunner, out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(table, "RUNNER\tVERSION\tMODEL\tSETTINGS\n")
	differ := false
	for _, r := range runners {
		differ = differ || r.Settings != runners[0].Settings
		cli.Row(table, r.ID, r.Version, r.Model, r.Settings)
	}
	err := table.Flush()
	if err == nil && differ {
		_, err = fmt.Fprintln(out, "\nThe settings differ: how a session behaves depends on the runner that drives it. "+
			"Start all runners with the same settings.")
	}
	return err
}
