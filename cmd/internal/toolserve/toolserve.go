// Package toolserve serves the built-in tools on a bus, for the toolworker and for runners with tools of their own.
package toolserve

import (
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/edit"
	"github.com/loopbus/loopbus/tools/find"
	"github.com/loopbus/loopbus/tools/grep"
	"github.com/loopbus/loopbus/tools/ls"
	"github.com/loopbus/loopbus/tools/read"
	"github.com/loopbus/loopbus/tools/resources"
	"github.com/loopbus/loopbus/tools/worker"
	"github.com/loopbus/loopbus/tools/workspace"
	"github.com/loopbus/loopbus/tools/write"
)

// Names lists the built-in tools.
func Names() []string {
	return []string{read.Name, write.Name, edit.Name, grep.Name, find.Name, ls.Name, bash.Name}
}

// CheckNames returns an error for a name that is not a built-in tool.
func CheckNames(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("--tools: unknown tool %q; the built-in tools are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Options configures [Run].
type Options struct {
	ID          string        // of the worker
	Workspace   string        // serve sessions of this workspace; "" serves those without one
	Tools       []string      // by name
	Root        string        // paths outside are refused
	Private     []string      // files that tools must not read or write; "" is ignored
	Env         []string      // additional variables for commands
	Bash        Bash          // confinement of commands
	ReadTimeout time.Duration // time limit of read-only tools; 0 is their default, negative means none
	Concurrency int           // calls of each tool at once
	AckWait     time.Duration // see [worker.Options]; 0 is its default
	StopTimeout time.Duration
	Life        context.Context // see [worker.Options]
	Environ     []string
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
	NoResources bool   // do not announce the resources in the root
	Announced   func() // called once the tools are announced; may be nil
	// Trace starts the span of a call; see [worker.Options].
	Trace func(ctx context.Context, req schemas.ToolRequest) (context.Context, func(outcome string))

	resources func(ctx context.Context) (schemas.Resources, error)
}

// Bash configures the confinement of commands; see [bash.Options].
type Bash struct {
	Limits  bash.Limits
	Sandbox bash.Sandbox
	Network bool
	Hide    []string
	Outputs Outputs
}

// Outputs configures where outputs too long to return are kept; zero values are the defaults of [bash.Options].
type Outputs struct {
	Dir         string
	Size, Total int64 // limits in bytes, of one and of all together
	Age         time.Duration
}

// MaxImageBytes limits an image to what fits in one command of the inbox; larger ones are scaled down.
const MaxImageBytes = 400 << 10

// Run serves the built-in tools of the options until ctx ends, then drains.
func Run(ctx context.Context, c *bus.Conn, o Options) error {
	var err error
	if o.Bash.Outputs.Dir, err = bash.SpillDir(o.Bash.Outputs.Dir); err != nil {
		return err
	}
	names := bash.SpillPattern(o.Bash.Outputs.Dir)
	private := slices.DeleteFunc(slices.Clone(o.Private), func(file string) bool { return file == "" })
	ws, err := workspace.Open(workspace.Options{Root: o.Root, Home: o.Root, Files: []string{names}, Private: private})
	if err != nil {
		return fmt.Errorf("--root: %w", err)
	}
	defer ws.Close()
	if slices.Contains(o.Tools, bash.Name) {
		options := bashOptions(ws, o) // o changes below
		if err := prepareBash(ctx, options); err != nil {
			return err
		}
		tidy, stop := context.WithCancel(ctx)
		var tidied sync.WaitGroup
		tidied.Go(func() { bash.Tidy(tidy, options) })
		defer tidied.Wait()
		defer stop()
	}
	if !o.NoResources {
		o.resources = func(ctx context.Context) (schemas.Resources, error) { return discover(ctx, ws, o.Root) }
	}
	return Serve(ctx, c, o, build(ws, o))
}

// discover finds the resources for prompts in the root.
func discover(ctx context.Context, ws *workspace.Workspace, root string) (schemas.Resources, error) {
	dir, err := filepath.Abs(root)
	if err != nil {
		return schemas.Resources{}, err
	}
	all, name, err := ws.FS(ctx, dir)
	if err != nil {
		return schemas.Resources{}, err
	}
	files, err := fs.Sub(all, path.Clean(name))
	if err != nil {
		return schemas.Resources{}, err
	}
	found, err := resources.Discover(ctx, files)
	found.Directory = dir
	return found, err
}

// Serve serves a set of tools until ctx ends, then drains.
func Serve(ctx context.Context, c *bus.Conn, o Options, set []tools.Tool) error {
	w, err := worker.New(worker.Options{
		ID: o.ID, NC: c.NATS(), JS: c.JetStream(), Subjects: c.Subjects(), Tools: set, Workspace: o.Workspace,
		Announced: o.Announced, Concurrency: o.Concurrency, AckWait: o.AckWait, StopTimeout: o.StopTimeout,
		Life: o.Life, Logger: o.Logger,
		Registerer: o.Registerer, Trace: o.Trace, Resources: o.resources,
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

func build(ws *workspace.Workspace, o Options) (set []tools.Tool) {
	for _, name := range o.Tools {
		switch name {
		case read.Name:
			set = append(set, read.New(read.Options{Workspace: ws, MaxImageBytes: MaxImageBytes}))
		case write.Name:
			set = append(set, write.New(ws))
		case edit.Name:
			set = append(set, edit.New(ws))
		case grep.Name:
			set = append(set, grep.New(ws))
		case find.Name:
			set = append(set, find.New(ws))
		case ls.Name:
			set = append(set, ls.New(ws))
		case bash.Name:
			set = append(set, bash.New(bashOptions(ws, o)))
		}
	}
	for i := range set {
		if set[i].Effect == schemas.EffectReadOnly && o.ReadTimeout != 0 {
			set[i].TimeoutMs = max(o.ReadTimeout.Milliseconds(), 0)
		}
	}
	return set
}

func bashOptions(ws *workspace.Workspace, o Options) bash.Options {
	return bash.Options{
		Workspace: ws, Environ: o.Environ, Env: o.Env, Limits: o.Bash.Limits, Sandbox: o.Bash.Sandbox,
		SandboxNetwork: o.Bash.Network, SandboxHide: o.Bash.Hide,
		TempDir: o.Bash.Outputs.Dir, SpillBytes: o.Bash.Outputs.Size, SpillTotal: o.Bash.Outputs.Total,
		SpillAge: o.Bash.Outputs.Age,
	}
}

// prepareBash returns an error if the requested sandbox is not available. Without a sandbox it hides the keys in the
// process's environment from commands.
func prepareBash(ctx context.Context, o bash.Options) error {
	if o.Sandbox == "" || o.Sandbox == bash.SandboxNone {
		bash.HideEnvironment()
	}
	return bash.Check(ctx, o)
}
