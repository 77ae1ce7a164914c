// Package environ chooses what a process that is started for a tool gets of its parent's environment: nothing that
// is not allowed by name, so that no key leaks.
package environ

import "strings"

// Default is what any process may know. A final * stands for any ending.
func Default() []string {
	return []string{"PATH", "HOME", "LANG", "LC_*", "TERM", "TMPDIR", "USER", "SHELL"}
}

// Allowed picks the variables of environ, as of os.Environ, whose names match one of names. It is never nil.
func Allowed(environ, names []string) []string {
	env := []string{} // to package exec nil would mean all of ours
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
