package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestLogsHoldNoContent runs at the most talkative level: what was said and what tools answered is nobody's business
// who reads logs.
func TestLogsHoldNoContent(t *testing.T) {
	t.Parallel()
	var shown, logged bytes.Buffer
	args := []string{"--prompt", "!echo s3cr3t-$((40+2))", "--log-level", "debug", "--root", t.TempDir()}
	if err := run(t.Context(), args, func(string) string { return "" }, &shown, &logged); err != nil {
		t.Fatalf("%v\n%s", err, logged.String())
	}
	if !strings.Contains(shown.String(), "s3cr3t-42") {
		t.Fatalf("the tool's output was not shown:\n%s", shown.String())
	}
	if strings.Contains(logged.String(), "s3cr3t") {
		t.Errorf("content in the log:\n%s", logged.String())
	}
	if !strings.Contains(logged.String(), "level=DEBUG") {
		t.Error("nothing was logged at debug level: the test shows nothing")
	}
}
