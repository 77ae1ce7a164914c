package cli

import (
	_ "embed"
	"slices"
	"strings"
	"sync"

	"github.com/alecthomas/kong"
)

// settings.txt has a line for each program with the names of its settings, so that a variable of another program does
// not count as a mistake. A test of each program checks its line.
//
//go:embed settings.txt
var settingsText string

// KnownSettings returns the names of a program's settings as settings.txt lists them.
func KnownSettings(program string) []string {
	for line := range strings.Lines(settingsText) {
		if name, rest, ok := strings.Cut(line, ":"); ok && name == program {
			return strings.Fields(rest)
		}
	}
	return nil
}

// Settings returns the names of the program's settings, sorted.
func (p *Program) Settings() ([]string, error) {
	k, err := p.kong(&collector{given: map[*kong.Value]string{}})
	if err != nil {
		return nil, err
	}
	return settingsOf(k.Model), nil
}

// allVariables returns the environment variables of all programs, sorted.
var allVariables = sync.OnceValue(func() (names []string) {
	for line := range strings.Lines(settingsText) {
		_, rest, _ := strings.Cut(line, ":")
		for _, name := range strings.Fields(rest) {
			names = append(names, variable(name))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
})
