// Package jail makes the sandboxes that commands run in, of Linux namespaces or by bubblewrap. What they keep a command
// from, and what not, is written in docs/security.md.
//
// A program that uses it starts itself again, in up to three parts. Main is for the beginning of its main:
//
//	setup    first process of new namespaces, with powers in them: mounts what the command is to see, gives all powers
//	         up and becomes the init
//	init     the same process, from an image without powers or descriptors: starts the command and reaps
//	enter    what bubblewrap is executed by: it does what bubblewrap does not
//
// A worker that is root runs no command as root. Its commands are those of another user, [Nobody], to whom the
// workspace looks as if it was his: the kernel maps owners there, and what he makes belongs to root outside.
package jail

import (
	"os"
	"slices"
	"strings"
)

// Nobody is the user and group that root's commands run as.
const Nobody = 65534

// Bubblewrap is the program of https://github.com/containers/bubblewrap.
const Bubblewrap = "bwrap"

const (
	// tmpBytes is the room in each directory that is a command's own.
	tmpBytes = 1 << 30

	// failed is the status of a command whose sandbox could not be made.
	failed = 126
)

// shm is an own directory, too, in a /dev that is made for the command.
const shm = "/dev/shm"

// ownDirs are the directories that a command has for itself. They are where sockets of services are.
var ownDirs = []string{"/tmp", "/var/tmp", "/run", "/var/run"}

// resolver is where names of hosts are looked up on many machines; it is below a directory that commands have for
// themselves.
const resolver = "/run/systemd/resolve"

// A Spec is a command and what it is confined to. All paths are absolute, with links resolved.
type Spec struct {
	Words      []string `json:"words"` // the command
	Dir        string   `json:"dir"`   // where it runs
	Root       string   `json:"root"`  // the workspace, where it may write
	Network    bool     `json:"network,omitempty"`
	Hide       []string `json:"hide,omitempty"` // files and directories that it finds empty; others are skipped
	Bubblewrap bool     `json:"bubblewrap,omitempty"`

	Program string `json:"program,omitempty"` // bubblewrap, where the worker finds it
	Mapped  bool   `json:"mapped,omitempty"`  // the tree with other owners is an extra file
	Parent  int    `json:"parent,omitempty"`  // with which bubblewrap ends
}

// Lend lets commands open a file of the worker's once more, such as the pipe of their output as /dev/stderr.
func Lend(f *os.File) error {
	if !isRoot() {
		return nil
	}
	return f.Chown(Nobody, Nobody)
}

// UID is the user that commands run as in a sandbox.
func UID() int {
	if isRoot() {
		return Nobody
	}
	return os.Getuid()
}

// Environ is an environment for a command in a sandbox: with directories that are there, and names that fit.
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

// own keeps the directories of ownDirs that are there, and no links.
func own() (out []string) {
	for _, dir := range ownDirs {
		if info, err := os.Lstat(dir); err == nil && info.IsDir() {
			out = append(out, dir)
		}
	}
	return out
}

// hidden are the paths to hide that this process can reach, apart by what they are. What it cannot, the command cannot
// either.
func (s Spec) hidden() (dirs, files []string) {
	for _, path := range s.Hide {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			dirs = append(dirs, path)
		} else if err == nil {
			files = append(files, path)
		}
	}
	return dirs, files
}
