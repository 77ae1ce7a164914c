package natsio_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
)

// A cluster that elects a leader answers with an error of the API. Whoever looked something up tries again.
func TestErrorsThatPass(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name   string
		err    error
		passes bool
	}{
		{"no leader", &jetstream.APIError{Code: 503, ErrorCode: 10008}, true},
		{"no leader, by the older API", &nats.APIError{Code: 503, ErrorCode: 10008}, true},
		{"too many messages wait", &jetstream.APIError{Code: 429, ErrorCode: 10167}, true},
		{"a replica is behind", natsio.ErrBehind, true},
		{"no such stream", jetstream.ErrStreamNotFound, false},
		{"another last sequence", &jetstream.APIError{Code: 400, ErrorCode: 10071}, false},
		{"of another kind", errors.New("no"), false},
	} {
		if got := natsio.Passing(fmt.Errorf("get a message: %w", c.err)); got != c.passes {
			t.Errorf("%s: passes is %v", c.name, got)
		}
	}
}
