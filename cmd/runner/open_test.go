package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/streams"
)

// A server whose streams cannot be used is an error that says so, and everything started until then is closed again:
// the store can be opened once more.
func TestRunRefusesIncompatibleStreams(t *testing.T) {
	t.Parallel()
	store := t.TempDir()
	once := func(flags ...string) (string, error) {
		var stdout, stderr bytes.Buffer
		err := run(t.Context(), append([]string{"--prompt", "hello", "--store", store, "--root", t.TempDir()}, flags...),
			func(string) string { return "" }, &stdout, &stderr)
		return stdout.String(), err
	}
	if out, err := once("--partitions", "4"); err != nil {
		t.Fatalf("first run: %v\n%s", err, out)
	}
	_, err := once("--partitions", "8")
	var incompatible *streams.IncompatibleError
	if !errors.As(err, &incompatible) {
		t.Fatalf("run with another number of partitions: got %v, want an IncompatibleError", err)
	}
	const want = "stream AGENT_CMD has partitions 4, but 8 is needed: use the number of partitions it has"
	if !strings.Contains(err.Error(), want) {
		t.Errorf("got %q, want %q in it", err, want)
	}
	if out, err := once(); err != nil { // without a name any serves
		t.Fatalf("run after the refusal: %v\n%s", err, out)
	}
}
