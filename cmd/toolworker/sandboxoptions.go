package main

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/cmd/internal/toolserve"
	"github.com/loopbus/loopbus/tools/bash"
)

// sandboxOptions are the settings about what commands of bash are confined to.
type sandboxOptions struct {
	memory, fileSize string
	cpu              time.Duration
	processes        int
	limits           bash.Limits // what they come to

	sandbox string
	network bool
	hide    []string
}

func (o *sandboxOptions) define(s *config.Set) {
	s.String(&o.memory, "bash-memory", "", "most memory of each process of a command, in bytes or with K, M or G (default no limit)")
	s.Duration(&o.cpu, "bash-cpu", 0, "most processor time of each process of a command, in whole seconds; 0 is no limit")
	s.Int(&o.processes, "bash-processes", 0, "most processes of the worker's user, while commands start them; not for root; 0 is no limit")
	s.String(&o.fileSize, "bash-file-size", "", "largest file that a command may write, in bytes or with K, M or G (default no limit)")
	s.String(&o.sandbox, "sandbox", string(bash.SandboxNone), "sandbox of commands: none, bubblewrap or namespaces")
	s.Bool(&o.network, "sandbox-network", false, "let commands in a sandbox use the network")
	s.List(&o.hide, "sandbox-hide", "", "files and directories that commands in a sandbox cannot read, besides the credentials named here")
}

func (o *sandboxOptions) check() error {
	var errs []error
	bytes := func(name, text string) int64 {
		n, err := parseBytes(text)
		if err != nil {
			errs = append(errs, fmt.Errorf("--%s: %w", name, err))
		}
		return n
	}
	o.limits = bash.Limits{
		Memory: bytes("bash-memory", o.memory), FileSize: bytes("bash-file-size", o.fileSize), CPU: o.cpu, Processes: int64(o.processes),
	}
	if o.cpu%time.Second != 0 {
		errs = append(errs, fmt.Errorf("--bash-cpu: %s is not in whole seconds", o.cpu))
	}
	switch bash.Sandbox(o.sandbox) {
	case bash.SandboxBubblewrap, bash.SandboxNamespaces:
	case bash.SandboxNone:
		if o.network || len(o.hide) > 0 {
			errs = append(errs, errors.New("--sandbox-network, --sandbox-hide: there is no sandbox; choose one with --sandbox"))
		}
	default:
		errs = append(errs, fmt.Errorf("--sandbox: %q is not none, bubblewrap or namespaces", o.sandbox))
	}
	return errors.Join(errs...)
}

// parseBytes reads a number of bytes; an empty text is 0.
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

// bash is what the settings come to. Files with credentials that the worker was told of are hidden.
func (o *sandboxOptions) bash(all *options) toolserve.Bash {
	b := toolserve.Bash{Limits: o.limits, Sandbox: bash.Sandbox(o.sandbox), Network: o.network, Hide: o.hide}
	for _, file := range []string{all.creds, all.mcp.file, all.mcp.tokenFile} {
		if file != "" {
			b.Hide = append(b.Hide, file)
		}
	}
	return b
}
