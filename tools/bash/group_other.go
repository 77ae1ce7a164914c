//go:build !unix

package bash

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills only the shell: this system has no process groups.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
