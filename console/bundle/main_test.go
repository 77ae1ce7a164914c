package main

import (
	"os"
	"path/filepath"
	"testing"
)

// vendor are the files as they are kept.
func vendor(t *testing.T) map[string][]byte {
	t.Helper()
	const dir = "../static/vendor"
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	for _, f := range list {
		if files[f.Name()], err = os.ReadFile(filepath.Join(dir, f.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}

// The libraries are those whose checksums are kept: nobody has changed one.
func TestChecksums(t *testing.T) {
	t.Parallel()
	files := vendor(t)
	if got := string(checksums(files)); got != string(files[sums]) || len(files) != len(entries)+2 {
		t.Errorf("the files have these checksums:\n%s", got)
	}
}

// The libraries are what the tool makes.
func TestBundle(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("node_modules"); err != nil {
		how := "run npm ci in console/bundle"
		if os.Getenv("CI") != "" {
			t.Fatal(how)
		}
		t.Skip(how)
	}
	made, err := build(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, kept := range vendor(t) {
		if string(made[name]) != string(kept) {
			t.Errorf("%s is not what go run ./console/bundle makes", name)
		}
		delete(made, name)
	}
	for name := range made {
		t.Errorf("%s is missing", name)
	}
}
