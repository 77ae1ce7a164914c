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

	"github.com/loopbus/loopbus/tools/internal/jail"
)

// Sandbox is a way of confining commands.
type Sandbox string

// The sandboxes. In all but the first, a command can write only to the workspace; /tmp, /var/tmp, /run and /dev/shm are
// private and empty; the command sees only its own processes, which end with it; and it has no network unless
// [Options.SandboxNetwork] is set. It has no capabilities. If the worker is root, commands run as another user, to whom
// the workspace appears to belong. docs/security.md states the guarantees.
const (
	// SandboxNone does not confine commands: they can do what the worker's user can.
	SandboxNone Sandbox = "none"
	// SandboxBubblewrap runs commands with the program bwrap.
	SandboxBubblewrap Sandbox = "bubblewrap"
	// SandboxNamespaces uses Linux namespaces that this program sets up; its main must begin with [RunHelper].
	SandboxNamespaces Sandbox = "namespaces"
)

// checkTime is the time limit of the command that [Check] runs.
const checkTime = 30 * time.Second

// Check reports whether this machine can run commands with the limits and sandbox of the options: it runs a command
// that does nothing. The error says what is missing.
func Check(ctx context.Context, o Options) error {
	s := newShell(o)
	if s.bare() && !s.supervised() {
		return nil
	}
	if err := s.check(); err != nil {
		return fmt.Errorf("bash: sandbox %s: %w", s.opts.Sandbox, err)
	}
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	var out bytes.Buffer
	hide, _ := s.hidden() // an error concerns the commands in this workspace, and not the machine
	state, err := s.run(ctx, "true", s.opts.Workspace.Dir(), hide, &out)
	if err == nil && (state.killed || state.code != 0 || state.signal != "") {
		err = fmt.Errorf("a command that does nothing ended with status %d: %s", state.code, strings.TrimSpace(out.String()))
	}
	if err != nil {
		hint := ""
		if s.opts.Sandbox != SandboxNone {
			hint = jail.Hint()
		}
		return fmt.Errorf("bash: sandbox %s with limits %+v cannot be had on this machine: %w%s", s.opts.Sandbox,
			s.opts.Limits, err, hint)
	}
	return nil
}

// bare reports whether commands run without limits and sandbox.
func (s shell) bare() bool { return s.opts.Sandbox == SandboxNone && s.opts.Limits.none() }

// check reports mistakes that can be found without running a command.
func (s shell) check() error {
	uid := os.Getuid()
	if s.opts.Sandbox != SandboxNone {
		uid = jail.UID()
	}
	errs := []error{s.opts.Limits.check(s.path, uid)}
	switch s.opts.Sandbox {
	case SandboxNone:
		return errors.Join(errs...)
	case SandboxBubblewrap:
		if _, err := bubblewrap(s.opts.Workspace.Root()); err != nil {
			errs = append(errs, fmt.Errorf("%w; install bubblewrap", err))
		}
		errs = append(errs, jail.Available())
	case SandboxNamespaces:
		errs = append(errs, jail.Available())
	default:
		errs = append(errs, fmt.Errorf("there is none of that name, but %s, %s and %s", SandboxNone, SandboxBubblewrap,
			SandboxNamespaces))
	}
	errs = append(errs, s.checkHide())
	if root := s.opts.Workspace.Root(); below(root, s.attic.dir) {
		errs = append(errs, fmt.Errorf("the directory for long outputs, %s, is below the workspace %s: a command could put "+
			"a link in its place, and have this process write elsewhere; choose another directory", s.attic.dir, root))
	}
	if s.opts.Workspace.Root() == "/" {
		errs = append(errs, errors.New("the workspace is all of the file system, so there is nothing to confine commands to"))
	}
	return errors.Join(errs...)
}

// below reports whether a directory is in the root, or may be reached from there: by its name, or where links lead now.
func below(root, dir string) bool {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return true
	}
	real := abs
	for existing := abs; ; existing = filepath.Dir(existing) { // the directory may not exist yet
		if target, err := resolve(existing); err == nil {
			real = filepath.Join(target, strings.TrimPrefix(abs, existing))
			break
		}
		if existing == filepath.Dir(existing) {
			break
		}
	}
	for _, path := range []string{abs, real} {
		if rel, err := filepath.Rel(root, path); err == nil && filepath.IsLocal(rel) {
			return true
		}
	}
	return false
}

// command returns the process of a command, not started yet, from which a sandbox hides paths. The caller must call
// release after the start.
func (s shell) command(command, dir string, hide []string) (cmd *exec.Cmd, release func(), err error) {
	words := s.opts.Limits.words(s.path, command)
	if s.opts.Sandbox == SandboxNone {
		cmd = exec.Command(words[0], words[1:]...)
		cmd.Dir, cmd.Env = dir, s.env
		return cmd, func() {}, nil
	}
	spec := jail.Spec{Words: words, Dir: dir, Root: s.opts.Workspace.Root(), Network: s.opts.SandboxNetwork, Hide: hide}
	if s.opts.Sandbox == SandboxBubblewrap {
		if spec.Bubblewrap, err = bubblewrap(spec.Root); err != nil {
			return nil, nil, err
		}
	}
	if cmd, release, err = jail.Command(spec); err == nil {
		cmd.Env = jail.Environ(s.env)
	}
	return cmd, release, err
}
