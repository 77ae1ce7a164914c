package bash

import "strconv"

// bubblewrap is the program of https://github.com/containers/bubblewrap.
const bubblewrap = "bwrap"

// bubblewrapArgs are the program's arguments before the command. Later mounts lie over earlier ones.
func (s shell) bubblewrapArgs(dir string) []string {
	args := []string{"--die-with-parent", "--new-session", "--unshare-user-try", "--unshare-pid", "--unshare-ipc", "--unshare-uts",
		"--unshare-cgroup-try", "--cap-drop", "ALL", "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc"}
	if !s.opts.SandboxNetwork {
		args = append(args, "--unshare-net")
	}
	for _, own := range there(ownDirs) {
		if own != "/dev/shm" { // its /dev is its own
			args = append(args, "--perms", "1777", "--size", strconv.Itoa(tmpBytes), "--tmpfs", own)
		}
	}
	if s.opts.SandboxNetwork {
		args = append(args, "--ro-bind-try", resolver, resolver)
	}
	root := s.opts.Workspace.Root()
	args = append(args, "--bind", root, root)
	dirs, files := s.hidden()
	for _, d := range dirs {
		args = append(args, "--tmpfs", d, "--remount-ro", d)
	}
	for _, f := range files {
		args = append(args, "--ro-bind-try", "/dev/null", f)
	}
	return append(args, "--chdir", dir, "--")
}
