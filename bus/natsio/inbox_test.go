package natsio_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// An inbox says nothing of the next one, and is where the user's inboxes are.
func TestInboxesCannotBeGuessed(t *testing.T) {
	t.Parallel()
	for prefix, want := range map[string]string{"": "_INBOX.", "_INBOX_ann": "_INBOX_ann."} {
		nc := &nats.Conn{Opts: nats.Options{InboxPrefix: prefix}}
		a, b := natsio.NewInbox(nc), natsio.NewInbox(nc)
		restA, okA := strings.CutPrefix(a, want)
		restB, okB := strings.CutPrefix(b, want)
		if !okA || !okB || len(restA) < 26 || restA[:6] == restB[:6] || !schemas.IsInbox(a) {
			t.Errorf("%q, then %q", a, b)
		}
		if got := natsio.InboxBelow(nc, "models.x"); got != want+"models.x" {
			t.Errorf("below: %q", got)
		}
	}
}
