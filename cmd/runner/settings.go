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

	once bool // for one run only: run, chat, or --prompt
}

// serverSettings select the NATS server of a runner, and configure the embedded one.
type serverSettings struct {
	cli.Connection `embed:""`

	Listen       string        `placeholder:"ADDR" brief:"" help:"Serve embedded NATS here (default 127.0.0.1:4222)."`
	Store        string        `placeholder:"DIR" brief:"" help:"Keep its data in this directory (default loopbus-data)."`
	SyncAlways   bool          `help:"Make the embedded server fsync before every acknowledgement."`
	SyncInterval time.Duration `default:"2m" help:"Make the embedded server fsync at this interval."`
	Partitions   int           `help:"Create the inbox with this number of partitions (default 64)."`
	Replicas     int           `help:"Set the replicas of the streams: 1, 3 or 5 (default unchanged)."`
	ID           string        `name:"id" brief:"" help:"Set the unique name of this runner (default random)."`
	Takeover     time.Duration `default:"${takeover}" help:"Consider a runner dead this long after its last heartbeat."`
	StopTimeout  time.Duration `default:"10s" help:"Let running work finish for this long on shutdown."`
	StrictFleet  bool          `help:"Refuse to start beside runners with other settings."`
}

// embedded reports whether the runner starts its own server.
func (o *serverSettings) embedded() bool { return !o.Connection.Given() }

// Check validates the settings; it fills in no defaults.
func (o *serverSettings) Check(c *cli.Call) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	own := slices.DeleteFunc([]string{"listen", "store", "sync-always", "sync-interval"},
		func(name string) bool { return !c.Given(name) })
	if c.Source("nats") == "NATS_URL" && len(own) > 0 {
		o.NATS = "" // explicit settings of an embedded server win over NATS_URL
	}
	if !o.embedded() && len(own) > 0 {
		bad("--nats: cannot be combined with --listen, --store, --sync-always and --sync-interval, which configure the " +
			"embedded server")
	}
	if o.ID != "" {
		if err := schemas.CheckToken("runner id", o.ID); err != nil {
			bad("--id: %w", err)
		}
	}
	if c.Given("partitions") && o.Partitions < 1 || o.Partitions > 1024 {
		bad("--partitions: %d is not between 1 and 1024", o.Partitions)
	}
	if !slices.Contains([]int{0, 1, 3, 5}, o.Replicas) {
		bad("--replicas: %d is not 1, 3 or 5", o.Replicas)
	} else if o.embedded() && o.Replicas > 1 {
		bad("--replicas: %d need a cluster of NATS servers (--nats URL,URL,URL); the embedded server is a single "+
			"one", o.Replicas)
	}
	if o.SyncInterval < time.Second {
		bad("--sync-interval: %s is less than 1s; use --sync-always to sync before every acknowledgement", o.SyncInterval)
	}
	if err := inbox.CheckTakeover(o.Takeover); err != nil {
		bad("--takeover: %w", err)
	}
	return append(errs, cli.CheckAddress("--listen", o.Listen))
}

// sessionSettings are defaults for sessions that do not set them themselves, besides models and tools.
type sessionSettings struct {
	Profile        string        `brief:"" help:"Use this profile for sessions that follow none."`
	SystemPrompt   string        `brief:"" help:"Use this system prompt for sessions that set none."`
	Workspace      string        `brief:"" help:"Use the tools of this workspace for sessions that set none."`
	UpdateInterval time.Duration `default:"25ms" help:"Join the deltas of this interval in one message; 0 joins none."`
	AbortGrace     time.Duration `default:"10s" help:"Let tools stop for this long when a run is aborted."`
	MaxSessions    int           `default:"${maxSessions}" help:"Limit the sessions at work at once; others wait."`
	SessionMemory  int           `default:"256" help:"Give sessions at work this many MiB, by size; others wait."`
	NoCompaction   bool          `help:"Summarize long contexts only on the command compact."`
	CompactReserve int           `default:"16384" help:"Reserve this many tokens of the context window for the reply."`
	CompactKeep    int           `default:"20000" help:"Keep this many tokens of the newest messages unsummarized."`
}

// maxSessionMemory is a TiB, in MiB.
const maxSessionMemory = 1 << 20

// Check validates the names and numbers.
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
	if o.SessionMemory < 4 || o.SessionMemory > maxSessionMemory {
		errs = append(errs, fmt.Errorf("--session-memory: must be from 4 to %d", maxSessionMemory))
	}
	if o.CompactReserve < 1 || o.CompactKeep < 1 {
		errs = append(errs, errors.New("--compact-reserve, --compact-keep: must be at least 1"))
	}
	return errs
}

// toolSettings configure the worker inside the runner, and the calls that sessions make of any worker.
type toolSettings struct {
	Tools       []string      `default:"${tools}" brief:"" help:"Serve these built-in tools; with --nats none by default."`
	Root        string        `default:"." placeholder:"DIR" brief:"" help:"Confine the tools to this directory."`
	NoResources bool          `help:"Ignore context files, skills and prompt templates in the root."`
	Concurrency int           `default:"8" help:"Execute this many calls of each tool at once."`
	AckWait     time.Duration `default:"${ackWait}" help:"Consider a worker dead after this long without a heartbeat."`
	Window      int           `name:"max-calls-in-queue" default:"${window}" help:"Cap calls in flight per tool; 0: off."`
	Unserved    time.Duration `name:"unserved-after" default:"30s" help:"Fail calls unserved for this long; 0 never."`
	ToolTimeout time.Duration `help:"Limit calls of tools without a time limit; 0 for no limit."`

	given bool // --tools was given
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
		bad("--ack-wait: %s is less than %s; a busy worker would be considered dead", o.AckWait, worker.MinAckWait)
	}
	if o.Concurrency < 1 {
		bad("--concurrency: must be at least 1")
	}
	return errs
}

// Check validates settings against each other, and fills in the defaults that depend on other settings.
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
		o.Sessions.UpdateInterval = -1 // publish each delta at once
	}
	return nil
}

// private lists files that the tools must not read: those with credentials, and those that decide whom credentials
// are sent to. Standard output is one of them if it is a file, because the link to the console, with its token, is
// printed there.
func (o *options) private() []string {
	files := append(o.Server.Files(), o.Config.Config, o.Models.Keys, o.Models.Models, os.Stdout.Name())
	return append(files, strings.Fields(o.Models.KeyCommand)...)
}

// afterwards says what becomes of something in a session when this process ends.
func (o *options) afterwards(what string) string {
	switch {
	case !o.Server.embedded():
		return what + " continues"
	case o.Server.Store != "":
		return what + " continues when a runner is started with --store " + o.Server.Store
	}
	return what + " was stopped and is lost: without --store nothing is kept"
}

func randomID(prefix string) string { return prefix + strings.ToLower(rand.Text()[:10]) }
