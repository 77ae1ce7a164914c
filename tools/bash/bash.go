// Package bash is the tool that runs shell commands.
//
// A command runs as its own process group in the workspace's directory, with empty input and only the allowed
// environment variables, so the worker's keys do not leak into it. Nothing else confines it unless limits are set or
// a [Sandbox] is chosen.
//
// In a sandbox, background processes end with their command. Without one they continue until the process that serves
// the tool ends. Then everything that commands have started is killed, however that process ends, if its main calls
// [RunHelper] first. On Linux this includes all descendants; on other systems, the process groups of running
// commands. A command that works against this prevents it, because it can kill the process that does it: only a sandbox
// ends such a command.
//
// Both output streams are merged in order of arrival. The result shows the end of the output; if that is not all, the
// whole output is kept in a file that the result names, up to a size and for a time. Memory use does not grow with
// the output.
package bash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Name is the tool's name.
const Name = "bash"

const parameters = `{
  "type": "object",
  "properties": {
    "command": {"type": "string", "description": "Bash command to execute"},
    "timeout": {"type": "number", "description": "Timeout in seconds (optional, no default timeout)"}
  },
  "required": ["command"]
}`

const description = "Execute a bash command in the working directory. Returns stdout and stderr. The output is " +
	"truncated " +
	"to the last 2000 lines or 50KB (whichever is hit first); then the full output is saved to a temporary file. " +
	"Optionally provide a timeout in seconds."

// Default limits of the files with outputs that are too long to be shown: enough for the build log of a large project,
// on a disk with some gigabytes to spare, until the next day.
const (
	DefaultSpillBytes = 256 << 20
	DefaultSpillTotal = 4 << 30
	DefaultSpillAge   = 24 * time.Hour
)

// Options configures [New].
type Options struct {
	// Workspace has the directory that commands run in. The caller must keep it open while the tool is in use.
	Workspace *workspace.Workspace
	// Environ is the environment to select variables from, in the form of [os.Environ]; nil is an empty one.
	Environ []string
	// Env names further variables to pass on, besides those of [DefaultEnv]. A final * matches any suffix.
	Env []string
	// TempDir is an existing directory for outputs that are too long to be shown, default the one of [SpillDir].
	TempDir string
	// SpillBytes is the most bytes that are kept of one output, default [DefaultSpillBytes].
	SpillBytes int64
	// SpillTotal is the most bytes of all outputs in TempDir, default [DefaultSpillTotal]. The oldest are removed to
	// make room, but not those of commands that still run. At most a thousand outputs are kept.
	SpillTotal int64
	// SpillAge is how long outputs are kept, default [DefaultSpillAge].
	SpillAge time.Duration
	// Linger is how long the tool waits for more output after the shell has ended, if a background process keeps the
	// output open; default 100 ms.
	Linger time.Duration
	// UpdateEvery is the least time between two updates, default 100 ms.
	UpdateEvery time.Duration

	// Limits are the kernel limits of each process of a command. See [Check].
	Limits Limits
	// Sandbox selects how commands are confined, default [SandboxNone]. See [Check].
	Sandbox Sandbox
	// SandboxNetwork lets commands in a sandbox use the network.
	SandboxNetwork bool
	// SandboxHide names files and directories that are empty or unreadable for commands in a sandbox, such as keys of
	// the worker's user. [Check] refuses those that it does not find. What appears later at such a path is hidden from the
	// commands that start afterwards. The paths of [workspace.Workspace.Hidden] are hidden, too, if they exist.
	SandboxHide []string
}

func (o Options) withDefaults() Options {
	if o.SpillBytes <= 0 {
		o.SpillBytes = DefaultSpillBytes
	}
	if o.SpillTotal <= 0 {
		o.SpillTotal = DefaultSpillTotal
	}
	if o.SpillAge <= 0 {
		o.SpillAge = DefaultSpillAge
	}
	if o.Linger <= 0 {
		o.Linger = 100 * time.Millisecond
	}
	if o.UpdateEvery <= 0 {
		o.UpdateEvery = 100 * time.Millisecond
	}
	if o.Sandbox == "" {
		o.Sandbox = SandboxNone
	}
	return o
}

type arguments struct {
	Command string  `json:"command"`
	Timeout float64 `json:"timeout"`
}

// New returns the tool. Use [Check] to find out whether the machine supports the sandbox; if it does not, every
// command fails.
func New(o Options) tools.Tool {
	s := newShell(o)
	return tools.Must(tools.Typed(schemas.ToolDefinition{
		Name: Name, Label: Name, Description: description, Parameters: json.RawMessage(parameters),
		Effect: schemas.EffectUnsafe,
	}, s.execute))
}

// shell is safe for concurrent use.
type shell struct {
	opts  Options
	path  string
	env   []string
	attic *attic

	targets *targets
}

func newShell(o Options) shell {
	o = o.withDefaults()
	s := shell{
		opts: o, path: find(), env: AllowedEnv(o.Environ, o.Env),
		attic: newAttic(o), targets: &targets{marks: map[string]string{}},
	}
	_, _ = s.hidden() // notes what links lead to now; commands are told if that is wrong
	return s
}

func (s shell) execute(ctx context.Context, call tools.Call, args arguments) (schemas.ToolResult, error) {
	dir := s.opts.Workspace.Dir()
	info, err := s.opts.Workspace.Stat(ctx, dir)
	switch {
	case errors.As(err, new(*workspace.DeniedError)):
		return schemas.ToolResult{}, err
	case err != nil && ctx.Err() != nil:
		return schemas.ToolResult{}, interruption(ctx)
	case err != nil || !info.IsDir():
		return schemas.ToolResult{}, tools.Failf(
			"Working directory does not exist: %s\nCannot execute bash commands.", dir)
	}
	if ctx.Err() != nil {
		return schemas.ToolResult{}, interruption(ctx)
	}
	hide, err := s.hidden()
	if err != nil {
		return schemas.ToolResult{}, tools.Failf("Cannot execute bash commands: %v", err)
	}
	ctx, cancel := withTimeout(ctx, args.Timeout)
	defer cancel()

	s.attic.visit()
	out := newOutput(s.attic)
	defer out.close()
	live := startLive(out, s.opts.UpdateEvery, call.Update)
	state, err := s.run(ctx, args.Command, dir, hide, live)
	out.finish()
	live.stop()
	return conclude(ctx, out.snapshot(), state, err)
}

// timeoutError is the cause of a context that has ended because of the call's own timeout.
type timeoutError struct{ seconds float64 }

func (e *timeoutError) Error() string {
	return "Command timed out after " + tools.Seconds(e.seconds) + " seconds"
}

func withTimeout(ctx context.Context, seconds float64) (context.Context, context.CancelFunc) {
	const most = float64(1<<63-1) / float64(time.Second)
	if !(seconds > 0) || seconds >= most {
		return context.WithCancel(ctx)
	}
	return context.WithTimeoutCause(ctx, time.Duration(seconds*float64(time.Second)), &timeoutError{seconds})
}

// interruption returns why the command was killed.
func interruption(ctx context.Context) error {
	cause := context.Cause(ctx)
	var own *timeoutError
	var limit *tools.TimeLimitError
	switch {
	case errors.As(cause, &own):
		return own
	case errors.As(cause, &limit):
		return &timeoutError{limit.Limit.Seconds()}
	}
	return tools.Failure("Command aborted")
}

// conclude returns the result of a command from its output and status.
func conclude(ctx context.Context, out snapshot, state ending, err error) (schemas.ToolResult, error) {
	switch {
	case err != nil:
		return schemas.ToolResult{}, out.failed(err.Error(), "")
	case state.killed:
		return schemas.ToolResult{}, out.failed(interruption(ctx).Error(), "")
	case state.signal != "":
		return schemas.ToolResult{}, out.failed("Command was terminated by a signal: "+state.signal, noOutput)
	case state.code != 0:
		return schemas.ToolResult{}, out.failed(fmt.Sprintf("Command exited with code %d", state.code), noOutput)
	}
	result := schemas.TextResult(out.text(noOutput))
	if out.cut.Truncated {
		result.Details, err = out.details()
	}
	return result, err
}
