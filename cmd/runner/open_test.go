package main

import (
	"bytes"
	"errors"
	"testing"

	"github.com/loopbus/loopbus/bus"
)

// A server whose streams cannot be used is an error that says so, and everything started until then is closed again:
// the store can be opened once more.
func TestRunRefusesIncompatibleStreams(t *testing.T) {
	store := t.TempDir()
	once := func(partitions string) (string, error) {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), []string{"--prompt", "hello", "--store", store, "--root", t.TempDir(),
			"--partitions", partitions}, func(string) string { return "" }, &stdout, &stderr)
		return stdout.String(), err
	}
	if out, err := once("4"); err != nil {
		t.Fatalf("first run: %v\n%s", err, out)
	}
	_, err := once("8")
	var incompatible *bus.IncompatibleError
	if !errors.As(err, &incompatible) {
		t.Fatalf("run with another number of partitions: got %v, want an IncompatibleError", err)
	}
	if out, err := once("4"); err != nil {
		t.Fatalf("run after the refusal: %v\n%s", err, out)
	}
}
