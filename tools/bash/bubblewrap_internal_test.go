//go:build unix

package bash

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The program that makes a sandbox is none that a command of the sandbox can write or choose. The test is not parallel:
// PATH is the process's.
func TestBubblewrapIsNotTakenFromTheWorkspace(t *testing.T) {
	base, err := resolve(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(base, name) }
	for _, dir := range []string{"root/bin", "system", "links"} {
		if err := os.MkdirAll(at(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, file := range []string{"root/bin/bwrap", "system/bwrap"} {
		if err := os.WriteFile(at(file), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"root/link": "system", "into": "root/bin", "links/bwrap": "root/bin/bwrap",
		"over": "root/link", "alias": "system"} {
		if err := os.Symlink(at(to), at(link)); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(at("root/bin"))
	bad := []string{at("missing"), "", ".", "../bin", at("root/bin"), at("root/../root/bin"), at("root/link"), at("into"),
		at("links")}
	for _, c := range []struct {
		path []string
		want string
	}{
		{append(bad, at("system")), at("system/bwrap")}, {append(bad, at("alias")), at("system/bwrap")}, {bad, ""},
	} {
		t.Setenv("PATH", strings.Join(c.path, string(filepath.ListSeparator)))
		got, err := bubblewrap(at("root"))
		if got != c.want || (err == nil) != (c.want != "") || err != nil && !strings.Contains(err.Error(), at("root")) {
			t.Errorf("PATH=%s: %q, %v", os.Getenv("PATH"), got, err)
		}
	}
}
