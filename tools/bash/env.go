package bash

import (
	"os"
	"os/exec"

	"github.com/loopbus/loopbus/tools/internal/environ"
)

// DefaultEnv returns the variables of the worker's environment that commands receive. A final * matches any suffix.
func DefaultEnv() []string { return environ.Default() }

// AllowedEnv returns the variables of an environment that commands receive: those of [DefaultEnv], and those whose
// names match one of names. A final * matches any suffix. Commands without a sandbox can read the environment of every
// other process of their user, so a program that may run commands should give the processes that it starts no others.
func AllowedEnv(env, names []string) []string {
	return environ.Allowed(env, append(DefaultEnv(), names...))
}

// find returns the path of the shell: /bin/bash if it exists, otherwise bash in the path, otherwise sh.
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
