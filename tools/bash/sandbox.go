package bash

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Sandbox is what is around commands besides their environment.
type Sandbox string

// The sandboxes. In all but the first, a command sees the file system read-only, but for the workspace; /tmp, /var/tmp, /run
// and /dev/shm are its own and empty; it sees only its own processes, and they end with it; and there is no network unless
// it is given. Root has none of its powers there.
const (
	// SandboxNone is nothing: a command can do what the worker's user can.
	SandboxNone Sandbox = "none"
	// SandboxBubblewrap runs commands by the program bwrap.
	SandboxBubblewrap Sandbox = "bubblewrap"
	// SandboxNamespaces is made by this process, of Linux namespaces; its main has to begin with [RunHelper].
	SandboxNamespaces Sandbox = "namespaces"
)

const (
	// tmpBytes is the room in each directory that is a command's own.
	tmpBytes = 1 << 30

	// checkTime is how long a sandbox may take to prove itself.
	checkTime = 30 * time.Second
)

// ownDirs are the directories that a command has for itself.
var ownDirs = []string{"/tmp", "/var/tmp", "/run", "/dev/shm"}

// resolver is where names of hosts are looked up on many machines; it is below a directory that commands have for themselves.
const resolver = "/run/systemd/resolve"

// Check reports whether commands can be run with the options' limits and sandbox on this machine: it runs one that does
// nothing. The error says what is missing.
func Check(ctx context.Context, o Options) error {
	s := newShell(o)
	if s.bare() {
		return nil
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("bash: sandbox %s: %w", s.opts.Sandbox, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var out bytes.Buffer
	state, err := s.run(ctx, "true", s.opts.Workspace.Dir(), &out)
	if err == nil && (state.killed || state.code != 0 || state.signal != "") {
		err = fmt.Errorf("a command that does nothing ended with status %d: %s", state.code, strings.TrimSpace(out.String()))
	}
	if err != nil {
		return fmt.Errorf("bash: sandbox %s with limits %+v cannot be had on this machine: %w", s.opts.Sandbox, s.opts.Limits, err)
	}
	return nil
}

// bare reports whether commands run without limits and sandbox.
func (s shell) bare() bool { return s.opts.Sandbox == SandboxNone && s.opts.Limits.none() }

// check finds out what can be known without trying.
func (s shell) check() error {
	errs := []error{s.opts.Limits.check(s.path, os.Getuid())}
	switch s.opts.Sandbox {
	case SandboxNone:
		return errors.Join(errs...)
	case SandboxBubblewrap:
		if _, err := exec.LookPath(bubblewrap); err != nil {
			errs = append(errs, fmt.Errorf("%w; install bubblewrap", err))
		}
	case SandboxNamespaces:
		errs = append(errs, checkNamespaces())
	default:
		errs = append(errs, fmt.Errorf("there is none of that name, but %s, %s and %s", SandboxNone, SandboxBubblewrap, SandboxNamespaces))
	}
	if s.opts.Workspace.Root() == "/" {
		errs = append(errs, errors.New("the workspace is all of the file system, so there is nothing to confine commands to"))
	}
	return errors.Join(errs...)
}

// command makes the process of a command, which is not started yet.
func (s shell) command(command, dir string) (*exec.Cmd, error) {
	words := s.opts.Limits.words(s.path, command)
	var cmd *exec.Cmd
	switch s.opts.Sandbox {
	case SandboxBubblewrap:
		cmd = exec.Command(bubblewrap, append(s.bubblewrapArgs(dir), words...)...)
		cmd.Dir, cmd.Env = "/", s.sandboxEnv()
	case SandboxNamespaces:
		var err error
		if cmd, err = s.namespaced(words, dir); err != nil {
			return nil, err
		}
		cmd.Dir, cmd.Env = "/", s.sandboxEnv()
	default:
		cmd = exec.Command(words[0], words[1:]...)
		cmd.Dir, cmd.Env = dir, s.env
	}
	ownGroup(cmd)
	return cmd, nil
}

// sandboxEnv is the environment with a directory for temporary files that is there.
func (s shell) sandboxEnv() []string {
	env := make([]string, 0, len(s.env)+1)
	for _, v := range s.env {
		if !strings.HasPrefix(v, "TMPDIR=") {
			env = append(env, v)
		}
	}
	return append(env, "TMPDIR=/tmp")
}

// hidden are the paths to hide that are there, with links resolved, apart by what they are.
func (s shell) hidden() (dirs, files []string) {
	for _, path := range s.opts.SandboxHide {
		abs, err := filepath.Abs(path)
		if err == nil {
			abs, err = filepath.EvalSymlinks(abs)
		}
		if err != nil {
			continue // nothing to hide
		}
		if info, err := os.Stat(abs); err == nil && info.IsDir() {
			dirs = append(dirs, abs)
		} else if err == nil {
			files = append(files, abs)
		}
	}
	return dirs, files
}

// there keeps the directories that are there, and no links.
func there(dirs []string) (out []string) {
	for _, dir := range dirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			out = append(out, dir)
		}
	}
	return out
}
