package permissions_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/permissions"
	"github.com/loopbus/loopbus/schemas"
)

// deliverTo makes consumers, by each right of a user to create them, that deliver what they read to a subject, without
// payload and with a reply subject.
func deliverTo(t *testing.T, nc *nats.Conn, u permissions.User, subject string) (made int) {
	t.Helper()
	g, err := u.Grant(schemas.Subjects{})
	if err != nil {
		t.Fatal(err)
	}
	for _, own := range g.Publish {
		stream, filter, ok := creates(own)
		if !ok {
			continue
		}
		filter = strings.ReplaceAll(filter, "<name>", "bash2")
		body, err := json.Marshal(map[string]any{"stream_name": stream, "config": map[string]any{"name": "pushed",
			"deliver_policy": "all", "ack_policy": "explicit", "headers_only": true, "filter_subject": filter,
			"deliver_subject": subject}})
		if err != nil {
			t.Fatal(err)
		}
		m, err := nc.RequestWithContext(bustest.Deadline(t), "$JS.API.CONSUMER.CREATE."+stream+".pushed."+filter, body)
		if err != nil || strings.Contains(string(m.Data), `"error"`) {
			t.Fatalf("consumer of %s: %v %s", stream, err, m.Data)
		}
		made++
	}
	return made
}

// In one account, a user who may create consumers of a stream with messages can have a call delivered again while a
// worker executes it. All these roles are marked.
func TestWhoHasCallsDeliveredAgain(t *testing.T) {
	t.Parallel()
	const reset = "$JS.API.CONSUMER.RESET." + schemas.StreamTools + ".bash"
	for _, r := range permissions.Roles() {
		u := users(r.Name)[0]
		t.Run(string(r.Name), func(t *testing.T) {
			t.Parallel()
			config, err := permissions.Users(schemas.Subjects{}, admins, []permissions.User{u})
			if err != nil {
				t.Fatal(err)
			}
			a := newAttacked(t, config)
			bash, err := a.conn.JetStream().Consumer(bustest.Deadline(t), schemas.StreamTools, "bash")
			if err != nil {
				t.Fatal(err)
			}
			first, err := bash.Next(jetstream.FetchMaxWait(5 * time.Second))
			if err != nil || first.InProgress() != nil { // its worker lives
				t.Fatal(err)
			}
			nc := as(t, a.addr, u.Name)
			if deliverTo(t, nc, u, reset) == 0 {
				for _, own := range allowed(t, u) {
					if err := nc.PublishRequest(own, reset, nil); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := nc.FlushWithContext(bustest.Deadline(t)); err != nil {
				t.Fatal(err)
			}
			a.passed(u.Name)
			again, err := bash.Next(jetstream.FetchMaxWait(100 * time.Millisecond))
			if err == nil && r.Harm == "" {
				meta, _ := again.Metadata()
				t.Errorf("the call is delivered again, as delivery %d, and the role is not marked", meta.NumDelivered)
			}
			if err != nil && strings.Contains(r.Harm, "twice") {
				t.Errorf("the role is marked, and the call is not delivered again: %v", err)
			}
		})
	}
}
