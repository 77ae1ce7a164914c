// Package jail sets up the sandboxes that commands run in, with Linux namespaces or bubblewrap. docs/security.md
// describes what they protect against and what not.
//
// A program that uses it starts itself again, in up to three roles. Its main must call Main first:
//
//	setup    first process of new namespaces, with capabilities in them: mounts what the command may see, drops all
//	         capabilities and becomes the init
//	enter    in place of setup: does what bubblewrap does not, and executes bubblewrap, which executes the init
//	init     the first process of the sandbox, without capabilities or descriptors: starts the command and reaps
//
// A worker that runs as root does not run commands as root. They run as the user [Nobody], to whom the workspace
// appears to belong: the kernel maps owners, and what the user creates belongs to root outside.
package jail

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Nobody is the user and group that commands of root run as.
const Nobody = 65534

const (
	// tmpBytes is the size of each private directory of a command.
	tmpBytes = 1 << 30

	// failed is the exit status of a command whose sandbox could not be set up.
	failed = 126
)

// shm is a private directory in the command's /dev.
const shm = "/dev/shm"

// privateDirs are replaced by empty directories that only the command has. The machine's contain sockets of services.
var privateDirs = []string{"/tmp", "/var/tmp", "/run", "/var/run"}

// resolver is the directory that host names are looked up with on many machines. It is below a private directory.
const resolver = "/run/systemd/resolve"

// A Spec is a command and its confinement. All paths are absolute, with links resolved.
type Spec struct {
	Words      []string // the command
	Dir        string   // its working directory
	Root       string   // the workspace, which it may write to
	Network    bool
	Hide       []string // files and directories that are empty for it; missing ones are skipped
	Bubblewrap string   // path of bubblewrap, which no command can replace; empty does without

	// Set by Command.
	Mapped bool // treeFD is the workspace with mapped owners
	Parent int  // process id of the worker, with which bubblewrap ends
}

// Lend allows commands to reopen a file of the worker, such as the pipe of their output as /dev/stderr.
func Lend(f *os.File) error {
	if !isRoot() {
		return nil
	}
	return f.Chown(Nobody, Nobody)
}

// UID returns the user that commands run as in a sandbox.
func UID() int {
	if isRoot() {
		return Nobody
	}
	return os.Getuid()
}

// Environ returns an environment for a command in a sandbox, with directories that exist and matching user names.
func Environ(env []string) []string {
	set := []string{"TMPDIR=/tmp"}
	if isRoot() {
		set = append(set, "HOME=/tmp", "USER=nobody")
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(set, func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(env, set...)
}

// private returns the privateDirs that exist and are not symbolic links.
func private() (out []string) {
	for _, dir := range privateDirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			out = append(out, dir)
		}
	}
	return out
}

// hidden returns the directories and the files to hide. It leaves out paths that this process cannot reach, because the
// command cannot reach them either, and paths below another one, because they do not exist once that one is hidden.
func (s Spec) hidden() (dirs, files []string) {
	below := func(path string) bool {
		for path != "/" {
			if path = filepath.Dir(path); slices.Contains(s.Hide, path) {
				return true
			}
		}
		return false
	}
	for _, path := range s.Hide {
		if below(path) {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			dirs = append(dirs, path)
		} else if err == nil {
			files = append(files, path)
		}
	}
	return dirs, files
}
