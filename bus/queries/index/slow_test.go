package index_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/queries/index"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/schemas"
)

// noLogs are logs that cannot be read, so that no entry is compared with its log.
type noLogs struct{ index.Logs }

func (noLogs) Head(context.Context, string) (seq, stream uint64, err error) {
	return 0, 0, errors.New("it is not read")
}

// A bucket that is many times larger than what a server keeps for a connection is read without losing the connection,
// which the runner needs for all else, too.
func TestALargeBucketIsReadWithoutLosingTheConnection(t *testing.T) {
	t.Parallel()
	const many = 10_000
	s := bustest.NATS(t, &server.Options{JetStream: true, MaxPending: 1 << 20})
	r := &rig{t: t, conn: bustest.Dial(t, bus.ConnOptions{URL: s.ClientURL()})}
	bustest.Setup(t, r.conn, streams.Options{Partitions: bustest.SmallPartitions})
	js, more := r.conn.JetStream(), strings.Repeat("x", 1000)
	for n := range many {
		value := fmt.Appendf(nil, `{"summary":{"session":"s%d"},"stream":1,"more":%q}`, n, more)
		_, err := js.PublishAsync(fmt.Sprintf("$KV.%s.v1.s%d", schemas.BucketSessions, n), value,
			jetstream.WithStallWait(time.Minute))
		if err != nil {
			t.Fatal(err)
		}
	}
	bustest.Within(t, js.PublishAsyncComplete())
	o := never(r.quick())
	o.Logs = noLogs{}
	ix := r.open(o)
	if n, lost := len(ix.View().Entries), r.conn.NATS().Stats().Reconnects; n != many || lost > 0 {
		t.Errorf("%d entries of %d, and the connection was lost %d times", n, many, lost)
	}
}
