package main

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/worker"
)

// options are the runner's settings.
type options struct {
	Config   cli.Config       `embed:""`
	Server   serverSettings   `embed:"" group:"server"`
	Sessions sessionSettings  `embed:"" group:"sessions"`
	Models   modelSettings    `embed:"" group:"models"`
	Limits   limits           `embed:"" group:"limits"`
	Policy   policy           `embed:"" group:"policy"`
	Tools    toolSettings     `embed:"" group:"tools"`
	Observe  observe.Settings `embed:"" group:"observability"`
	Web      webSettings      `embed:"" group:"web"`

	Retention retentionSettings `embed:"" group:"sessions"`

	once bool // it is for one run
}

// serverSettings say which NATS server a runner uses, and what a server of its own is like.
type serverSettings struct {
	cli.Connection `embed:""`

	Listen       string        `placeholder:"ADDR" brief:"" help:"Serve NATS there oneself (default 127.0.0.1:4222)."`
	Store        string        `placeholder:"DIR" brief:"" help:"Keep the own server's data (default loopbus-data)."`
	SyncAlways   bool          `help:"Have the own server fsync before every acknowledgement."`
	SyncInterval time.Duration `default:"2m" help:"Have the own server fsync as often, without --sync-always."`
	Partitions   int           `help:"Divide the inbox of new streams in so many (default 64)."`
	Replicas     int           `help:"Keep 1, 3 or 5 replicas of the streams (default as they are)."`
	ID           string        `name:"id" brief:"" help:"Name this runner as no other (default random)."`
	Takeover     time.Duration `default:"${takeover}" help:"Take a runner for dead this long after its last heartbeat."`
	StopTimeout  time.Duration `default:"10s" help:"Give running work this long when the runner stops."`
	StrictFleet  bool          `help:"Refuse to serve beside runners with other settings."`
}

// embedded reports whether the runner brings its own server.
func (o *serverSettings) embedded() bool { return !o.Connection.Given() }

// Check validates the settings and fills in none.
func (o *serverSettings) Check(c *cli.Call) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	own := slices.DeleteFunc([]string{"listen", "store", "sync-always", "sync-interval"},
		func(name string) bool { return !c.Given(name) })
	if c.Source("nats") == "NATS_URL" && len(own) > 0 {
		o.NATS = "" // a user who asks for an own server does not mean the other one
	}
	if !o.embedded() && len(own) > 0 {
		bad("--nats: --listen, --store, --sync-always and --sync-interval are of the runner's own server, which --nats " +
			"replaces")
	}
	if o.ID != "" {
		if err := schemas.CheckToken("runner id", o.ID); err != nil {
			bad("--id: %w", err)
		}
	}
	if c.Given("partitions") && o.Partitions < 1 || o.Partitions > 1024 {
		bad("--partitions: %d is not 1 to 1024", o.Partitions)
	}
	if !slices.Contains([]int{0, 1, 3, 5}, o.Replicas) {
		bad("--replicas: %d is not 1, 3 or 5", o.Replicas)
	} else if o.embedded() && o.Replicas > 1 {
		bad("--replicas: %d need a cluster of NATS servers, named by --nats URL,URL,URL; the runner's own server "+
			"stands alone", o.Replicas)
	}
	if o.SyncInterval < time.Second {
		bad("--sync-interval: %s is less than 1s; to sync before every acknowledgement give --sync-always", o.SyncInterval)
	}
	if err := inbox.CheckTakeover(o.Takeover); err != nil {
		bad("--takeover: %w", err)
	}
	return append(errs, cli.CheckAddress("--listen", o.Listen))
}

// sessionSettings are what sessions are driven with that set nothing themselves, in addition to models and tools.
type sessionSettings struct {
	Profile        string        `brief:"" help:"Have sessions follow this profile that follow none."`
	SystemPrompt   string        `brief:"" help:"Use this system prompt for sessions that set none."`
	Workspace      string        `brief:"" help:"Use the tools of this workspace for sessions that set none."`
	UpdateInterval time.Duration `default:"25ms" help:"Join deltas to one message in this time; 0 joins none."`
	AbortGrace     time.Duration `default:"10s" help:"Give tools this long to stop when a run is aborted."`
	MaxSessions    int           `default:"${maxSessions}" help:"Work on so many sessions at once; others wait."`
	NoCompaction   bool          `help:"Sum up the older part of a context only when somebody asks for it."`
	CompactReserve int           `default:"16384" help:"Keep so many tokens of a model's window free for its reply."`
	CompactKeep    int           `default:"20000" help:"Keep so many tokens of the newest messages as they are."`
}

// Check validates the names.
func (o *sessionSettings) Check(*cli.Call) (errs []error) {
	for _, n := range []struct{ flag, value string }{{"profile", o.Profile}, {"workspace", o.Workspace}} {
		if n.value == "" {
			continue
		}
		if err := schemas.CheckToken(n.flag, n.value); err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", n.flag, err))
		}
	}
	if o.MaxSessions < 1 {
		errs = append(errs, errors.New("--max-sessions: must be at least 1"))
	}
	if o.CompactReserve < 1 || o.CompactKeep < 1 {
		errs = append(errs, errors.New("--compact-reserve, --compact-keep: must be at least 1"))
	}
	return errs
}

// toolSettings are those of the worker inside of the runner, and of the calls that sessions make of any worker.
type toolSettings struct {
	Tools       []string      `default:"${tools}" brief:"" help:"Serve these tools; with --nats none unless given."`
	Root        string        `default:"." placeholder:"DIR" brief:"" help:"Keep the tools to this directory."`
	NoResources bool          `help:"Do not use context files, skills and prompt templates of the root."`
	Concurrency int           `default:"8" help:"Execute so many calls of each tool at once."`
	AckWait     time.Duration `default:"${ackWait}" help:"Miss a worker after this long without heartbeat."`
	Window      int           `name:"max-calls-in-queue" default:"${window}" help:"Dispatch so many of a tool; 0: all."`
	Unserved    time.Duration `name:"unserved-after" default:"30s" help:"Fail unserved calls; 0: never."`
	ToolTimeout time.Duration `help:"Limit calls of tools that set no time limit; 0 for none."`

	given bool // the tools
}

// Check validates the settings.
func (o *toolSettings) Check(c *cli.Call) (errs []error) {
	o.given = c.Given("tools")
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if err := toolserve.CheckNames(o.Tools); err != nil {
		errs = append(errs, err)
	}
	if info, err := os.Stat(o.Root); err != nil || !info.IsDir() {
		bad("--root: %q is not a directory", o.Root)
	}
	if o.AckWait < worker.MinAckWait {
		bad("--ack-wait: %s is less than %s: a busy worker would be taken for a dead one", o.AckWait, worker.MinAckWait)
	}
	if o.Concurrency < 1 {
		bad("--concurrency: must be at least 1")
	}
	return errs
}

// Check validates what the settings are together, and fills in the defaults that depend on others.
func (o *options) Check(c *cli.Call) []error {
	o.once = c.Command == commandRun || c.Command == commandChat || c.Command == commandDefault && c.Given("prompt")
	pick := func(p *string, serving, once string) {
		if *p == "" && o.once {
			*p = once
		} else if *p == "" {
			*p = serving
		}
	}
	pick(&o.Server.Listen, "127.0.0.1:4222", "127.0.0.1:0")
	pick(&o.Server.Store, "loopbus-data", "")
	o.Web.picked = o.Observe.HTTP == ""
	if o.once {
		o.Observe.Default(observe.Off, "warn")
	} else {
		o.Observe.Default("127.0.0.1:8080", "info")
	}
	o.Server.ID = cmp.Or(o.Server.ID, randomID("r-"))
	if !o.Server.embedded() && !o.Tools.given {
		o.Tools.Tools = nil
	}
	if o.Tools.Window == 0 {
		o.Tools.Window = -1 // no limit
	}
	if o.Sessions.UpdateInterval == 0 {
		o.Sessions.UpdateInterval = -1 // each as it comes
	}
	return nil
}

// private are the files that the settings name for the runner and not for its tools: with credentials, or with what
// says whom they are sent to. One more is the file that links with the console's token are printed to, if that is one.
func (o *options) private() []string {
	files := append(o.Server.Files(), o.Config.Config, o.Models.Keys, o.Models.Models, os.Stdout.Name())
	return append(files, strings.Fields(o.Models.KeyCommand)...)
}

func randomID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:10]) }
