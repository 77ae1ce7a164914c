package bash

import (
	"os"
	"os/exec"
	"strings"
)

// DefaultEnv is what commands are told of the worker's environment. A final * stands for any ending.
func DefaultEnv() []string {
	return []string{"PATH", "HOME", "LANG", "LC_*", "TERM", "TMPDIR", "USER", "SHELL"}
}

// allowed picks the variables whose names are allowed.
func allowed(environ, names []string) []string {
	names = append(DefaultEnv(), names...)
	env := []string{} // never nil: that would mean all of ours
	for _, variable := range environ {
		name, _, _ := strings.Cut(variable, "=")
		for _, pattern := range names {
			prefix, open := strings.CutSuffix(pattern, "*")
			if name == pattern || open && strings.HasPrefix(name, prefix) {
				env = append(env, variable)
				break
			}
		}
	}
	return env
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
