// Package environ selects the environment variables that a process started for a tool inherits: only those allowed by
// name, so that no key leaks.
package environ

import "strings"

// Default returns the variables that any process may have. A final * matches any suffix.
func Default() []string {
	return []string{"PATH", "HOME", "LANG", "LC_*", "TERM", "TMPDIR", "USER", "SHELL"}
}

// Allowed selects the variables of environ, in the form of os.Environ, whose names match one of names. It never
// returns nil.
func Allowed(environ, names []string) []string {
	env := []string{} // not nil: exec.Cmd would pass this process's whole environment
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
