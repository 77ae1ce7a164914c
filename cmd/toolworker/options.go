package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/observe"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/worker"
)

// options are the toolworker's settings.
type options struct {
	Config  cli.Config       `embed:""`
	Server  serverOptions    `embed:"" group:"server"`
	Tools   toolOptions      `embed:"" group:"tools"`
	MCP     mcpOptions       `embed:"" group:"mcp"`
	Sandbox sandboxOptions   `embed:"" group:"sandbox"`
	Output  outputOptions    `embed:"" group:"sandbox"`
	Observe observe.Settings `embed:"" group:"observability"`
}

// serverOptions select the server, and identify the worker.
type serverOptions struct {
	Connection cli.Connection `embed:""`

	ID          string        `name:"id" brief:"" help:"Set the unique name of this worker (default random)."`
	StopTimeout time.Duration `default:"10s" brief:"" help:"Let running calls finish for this long on shutdown."`
	// LeaveStreams makes the permissions of the role worker sufficient.
	LeaveStreams bool `name:"leave-streams" help:"Create no streams, which needs fewer permissions; runners do."`
}

// Check validates the settings.
func (o *serverOptions) Check(c *cli.Call) (errs []error) {
	if c.Given("nats") && o.Connection.NATS == "" {
		errs = append(errs, errors.New("--nats: is empty"))
	}
	if o.ID != "" {
		if err := schemas.CheckToken("worker id", o.ID); err != nil {
			errs = append(errs, fmt.Errorf("--id: %w", err))
		}
	}
	if o.StopTimeout <= 0 {
		errs = append(errs, errors.New("--stop-timeout: must be greater than 0"))
	}
	return errs
}

// toolOptions select and configure the built-in tools.
type toolOptions struct {
	Tools       []string      `default:"${tools}" brief:"" help:"Serve these built-in tools."`
	Root        string        `default:"." placeholder:"DIR" brief:"" help:"Confine the tools to this directory."`
	Workspace   string        `brief:"" help:"Serve only sessions of this workspace (default: of none)."`
	NoResources bool          `help:"Do not announce context files, skills and templates in the root."`
	Env         []string      `brief:"" help:"Pass these variables to commands too; a final * matches any suffix."`
	Concurrency int           `default:"8" brief:"" help:"Execute this many calls of each tool at once."`
	ReadTimeout time.Duration `default:"${readTimeout}" help:"Limit calls of read, grep, find and ls; 0 for no limit."`
	AckWait     time.Duration `default:"${ackWait}" help:"Consider a worker dead after this long without heartbeat."`
}

// Check validates the settings.
func (o *toolOptions) Check(*cli.Call) (errs []error) {
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	if o.Workspace != "" {
		if err := schemas.CheckToken("workspace", o.Workspace); err != nil {
			bad("--workspace: %w", err)
		}
	}
	for i, name := range o.Tools {
		if slices.Contains(o.Tools[:i], name) {
			bad("--tools: %q is named twice", name)
		}
	}
	if err := toolserve.CheckNames(o.Tools); err != nil {
		errs = append(errs, err)
	}
	if info, err := os.Stat(o.Root); err != nil || !info.IsDir() {
		bad("--root: %q is not a directory", o.Root)
	}
	if o.Concurrency < 1 {
		bad("--concurrency: must be at least 1")
	}
	if o.ReadTimeout != 0 && o.ReadTimeout < time.Millisecond {
		bad("--read-timeout: must be 0 or at least 1ms")
	}
	if o.AckWait < worker.MinAckWait {
		bad("--ack-wait: %s is less than %s; a busy worker would be considered dead", o.AckWait, worker.MinAckWait)
	}
	return errs
}

// private lists files that the tools must not access: those with credentials, and those that decide what the worker
// starts.
func (o *options) private() []string {
	return append(o.Server.Connection.Files(), o.Config.Config, o.MCP.File, o.MCP.TokenFile)
}

// Check validates settings against each other, and fills in the defaults that depend on other settings.
func (o *options) Check(c *cli.Call) (errs []error) {
	if len(o.Tools.Tools) == 0 && !o.MCP.serves() && len(o.MCP.Servers) == 0 && o.MCP.File == "" {
		errs = append(errs, fmt.Errorf("--tools: no tools given; the built-in tools are %s",
			strings.Join(toolserve.Names(), ", ")))
	}
	if o.MCP.serves() && !c.Given("tools") {
		o.Tools.Tools = nil // an MCP server offers the tools of other workers
	}
	o.Observe.Default(observe.Off, "info")
	if o.Server.ID == "" {
		o.Server.ID = "w-" + strings.ToLower(rand.Text()[:10])
	}
	return errs
}
