package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/loopbus/loopbus/bus/bustest"
)

// TestQueriesHaveAConnectionOfTheirOwn looks at the connections of a runner: a flood of queries, or of requests to the
// models that it serves, makes the server end theirs, and not the one that the runner gets its messages by.
func TestQueriesHaveAConnectionOfTheirOwn(t *testing.T) {
	t.Parallel()
	s := bustest.Configured(t, "")
	start(t, nil, "--nats", s.ClientURL(), "--id", "r1", "--model", "rehearsal", "--serve-models", "--http",
		"127.0.0.1:0", "--log-json").ready()
	list, err := s.Connz(&server.ConnzOptions{Subscriptions: true})
	if err != nil {
		t.Fatal(err)
	}
	for subject, want := range map[string]string{"agent.query.*.state": "queries", "agent.model.request": "requests"} {
		var at []string
		for _, c := range list.Conns {
			if slices.Contains(c.Subs, subject) {
				at = append(at, c.Name)
			}
		}
		if len(at) != 1 || !strings.HasSuffix(at[0], "/"+want) {
			t.Errorf("%s is subscribed to by the connections %q, want that for %s", subject, at, want)
		}
	}
}
