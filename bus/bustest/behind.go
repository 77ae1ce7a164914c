package bustest

import (
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// Behind connects to a server whose direct gets of a stream find no message, as if a replica answered them that is
// behind, until current is called. The stream's leader is asked by other requests, which find what is stored.
func Behind(t testing.TB, stream string) (c *bus.Conn, current func()) {
	t.Helper()
	s := NATS(t, &server.Options{JetStream: true})
	c = Dial(t, bus.ConnOptions{URL: s.ClientURL(), Name: t.Name()})
	Setup(t, c, streams.Options{Partitions: SmallPartitions})
	all := []string{"", ".>"}
	subject := "$JS.API.DIRECT.GET." + stream
	for _, rest := range all {
		_, err := c.NATS().Subscribe("behind"+rest, func(m *nats.Msg) {
			_ = c.NATS().PublishRequest("$JS.API.DIRECT.GET.KV_"+schemas.BucketDeletions+".none", m.Reply, nil)
		})
		if err == nil {
			err = s.GlobalAccount().AddMapping(subject+rest, "behind"+rest)
		}
		if err == nil {
			err = c.NATS().Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return c, func() {
		for _, rest := range all {
			s.GlobalAccount().RemoveMapping(subject + rest)
		}
	}
}
