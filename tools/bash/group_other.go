//go:build !unix

package bash

import "os/exec"

func ownGroup(*exec.Cmd) {}

// killGroup kills the shell alone: there are no process groups here.
func killGroup(cmd *exec.Cmd) { _ = cmd.Process.Kill() }
