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

// serverOptions say which servers the worker works for, and as whom.
type serverOptions struct {
	Connection cli.Connection `embed:""`

	ID          string        `name:"id" brief:"" help:"Name this worker as no other (default random)."`
	StopTimeout time.Duration `default:"10s" brief:"" help:"Give running calls this long when the worker stops."`
	// LeaveStreams keeps to what the role of a worker may do.
	LeaveStreams bool `name:"leave-streams" help:"Leave making streams to runners, which takes fewer permissions."`
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
		errs = append(errs, errors.New("--stop-timeout: must be more than nothing"))
	}
	return errs
}

// toolOptions say which of the built-in tools are served, and how.
type toolOptions struct {
	Tools       []string      `default:"${tools}" brief:"" help:"Serve these built-in tools."`
	Root        string        `default:"." placeholder:"DIR" brief:"" help:"Keep the tools to this directory."`
	Workspace   string        `brief:"" help:"Serve sessions of this workspace only (default those of none)."`
	NoResources bool          `help:"Do not announce context files, skills and prompt templates of the root."`
	Env         []string      `brief:"" help:"Show commands these variables, too; a final * is any ending."`
	Concurrency int           `default:"8" brief:"" help:"Execute so many calls of each tool at once."`
	ReadTimeout time.Duration `default:"${readTimeout}" help:"Limit calls of read, grep, find and ls; 0 for none."`
	AckWait     time.Duration `default:"${ackWait}" help:"Miss a worker after this long without heartbeat, 1s at least."`
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
		bad("--ack-wait: %s is less than %s: a busy worker would be taken for a dead one", o.AckWait, worker.MinAckWait)
	}
	return errs
}

// private are the files that the settings name for this process and not for the tools: with credentials, or with what
// it starts.
func (o *options) private() []string {
	return append(o.Server.Connection.Files(), o.Config.Config, o.MCP.File, o.MCP.TokenFile)
}

// Check validates what the settings are together, and fills in the defaults that depend on others.
func (o *options) Check(c *cli.Call) (errs []error) {
	if len(o.Tools.Tools) == 0 && !o.MCP.serves() && len(o.MCP.Servers) == 0 && o.MCP.File == "" {
		errs = append(errs, fmt.Errorf("--tools: none named, there are %s", strings.Join(toolserve.Names(), ", ")))
	}
	if o.MCP.serves() && !c.Given("tools") {
		o.Tools.Tools = nil // what is offered is what others serve
	}
	o.Observe.Default(observe.Off, "info")
	if o.Server.ID == "" {
		o.Server.ID = "w-" + strings.ToLower(rand.Text()[:10])
	}
	return errs
}
