package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/cmd/internal/cli"
)

// The other programs know the runner's variables by a list: one that is missing there would be refused by them.
func TestOtherProgramsKnowTheSettings(t *testing.T) {
	t.Parallel()
	p, _ := program()
	names, err := p.Settings()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(names, cli.KnownSettings(p.Name)); d != "" {
		t.Errorf("cmd/internal/cli/settings.txt needs the line\n%s: %s", p.Name, strings.Join(names, " "))
	}
}
