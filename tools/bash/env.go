package bash

import (
	"os"
	"os/exec"

	"github.com/loopbus/loopbus/tools/internal/environ"
)

// DefaultEnv is the part of the worker's environment that commands get. A final * stands for any ending.
func DefaultEnv() []string { return environ.Default() }

// allowed picks the variables whose names are allowed.
func allowed(env, names []string) []string {
	return environ.Allowed(env, append(DefaultEnv(), names...))
}

// find returns the shell: /bin/bash where it is, else what is called bash, else sh.
func find() string {
	const usual = "/bin/bash"
	if info, err := os.Stat(usual); err == nil && !info.IsDir() {
		return usual
	}
	if path, err := exec.LookPath("bash"); err == nil {
		return path
	}
	return "sh"
}
