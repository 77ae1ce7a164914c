package main

import (
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/tools/bash"
)

// sandboxOptions confine the commands of bash.
type sandboxOptions struct {
	Memory    string        `name:"bash-memory" help:"Limit the memory of each process of a command, such as 512M."`
	CPU       time.Duration `name:"bash-cpu" help:"Limit its processor time, in whole seconds; 0 for no limit."`
	Processes int           `name:"bash-processes" help:"Limit the processes of the worker's user; 0 for no limit."`
	FileSize  string        `name:"bash-file-size" help:"Limit the size of files that commands write, such as 512M."`
	Sandbox   string        `default:"none" brief:"" help:"Run commands in a sandbox: none, bubblewrap or namespaces."`
	Network   bool          `name:"sandbox-network" help:"Let commands in a sandbox use the network."`
	Hide      []string      `name:"sandbox-hide" help:"Hide these files and directories from a sandbox."`

	limits bash.Limits // the parsed settings
}

// Check parses the limits, and completes the paths.
func (o *sandboxOptions) Check(c *cli.Call) []error {
	var errs []error
	bytes := func(name, text string) int64 {
		n, err := parseBytes(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", name, err))
		}
		return n
	}
	o.limits = bash.Limits{
		Memory: bytes("bash-memory", o.Memory), FileSize: bytes("bash-file-size", o.FileSize), CPU: o.CPU,
		Processes: int64(o.Processes),
	}
	for i, path := range o.Hide {
		full, err := fromHome(path, c.IO.Getenv("HOME"))
		if err != nil {
			errs = append(errs, fmt.Errorf("--sandbox-hide: %w", err))
		}
		o.Hide[i] = full
	}
	if o.CPU%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--bash-cpu: %s is not in whole seconds", o.CPU))
	}
	switch bash.Sandbox(o.Sandbox) {
	case bash.SandboxBubblewrap, bash.SandboxNamespaces:
	case bash.SandboxNone:
		if o.Network || len(o.Hide) > 0 {
			errs = append(errs, errors.New("--sandbox-network, --sandbox-hide: need a sandbox; choose one with --sandbox"))
		}
	default:
		errs = append(errs, fmt.Errorf("--sandbox: %q is not none, bubblewrap or namespaces", o.Sandbox))
	}
	return errs
}

// fromHome replaces a leading ~/ by the home directory. A shell does so only at the start of a word.
func fromHome(path, home string) (string, error) {
	rest, ok := strings.CutPrefix(path, "~")
	switch {
	case !ok:
		return path, nil
	case rest != "" && rest[0] != '/':
		return "", fmt.Errorf("%q begins with \"~\"; write the whole path, or %q", path, "./"+path)
	case home == "":
		return "", fmt.Errorf("%q begins with \"~\", and HOME is not set; write the whole path", path)
	}
	return filepath.Join(home, rest), nil
}

// parseBytes parses a number of bytes with an optional unit; an empty text is 0.
func parseBytes(text string) (int64, error) {
	number, shift := text, 0
	for unit, bits := range map[string]int{"K": 10, "M": 20, "G": 30} {
		if rest, ok := strings.CutSuffix(strings.ToUpper(text), unit); ok {
			number, shift = rest, bits
		}
	}
	if text == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64>>shift {
		return 0, fmt.Errorf("%q is not a number of bytes such as 512M", text)
	}
	return n << shift, nil
}

// bash converts the settings to options of the bash tool.
func (o *sandboxOptions) bash(all *options) toolserve.Bash {
	return toolserve.Bash{Limits: o.limits, Sandbox: bash.Sandbox(o.Sandbox), Network: o.Network, Hide: o.Hide,
		Outputs: all.Output.kept}
}
