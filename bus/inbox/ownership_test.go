package inbox_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox"
	"github.com/loopbus/loopbus/schemas"
)

// other is a live runner, as far as its heartbeats say.
type other struct {
	t     *testing.T
	c     *bus.Conn
	reads atomic.Pointer[[]int] // what it says that it reads
}

// startOther beats until the test ends.
func startOther(t *testing.T, c *bus.Conn) *other {
	t.Helper()
	o := &other{t: t, c: c}
	o.reads.Store(&[]int{})
	if _, err := c.NATS().Subscribe(c.Subjects().Probe("other"), func(m *nats.Msg) { _ = m.Respond(nil) }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan struct{})
	go func() { defer close(stopped); o.beat(ctx) }()
	t.Cleanup(func() { cancel(); <-stopped })
	return o
}

func (o *other) beat(ctx context.Context) {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		data, err := json.Marshal(map[string]any{"id": "other", "reads": *o.reads.Load()})
		if err == nil {
			err = o.c.NATS().Publish(o.c.Subjects().Heartbeat(), data)
		}
		if err != nil {
			o.t.Error(err)
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// occupy deletes the runner's consumer and takes all partitions before the runner can. It returns once the runner was
// refused another.
func (o *other) occupy() {
	o.t.Helper()
	audit, err := o.c.NATS().SubscribeSync("$JS.EVENT.ADVISORY.API")
	o.must(err)
	defer func() { _ = audit.Unsubscribe() }()
	config := jetstream.ConsumerConfig{Durable: "other_1", AckPolicy: jetstream.AckExplicitPolicy}
	for n := range bustest.SmallPartitions {
		config.FilterSubjects = append(config.FilterSubjects, fmt.Sprintf("agent.cmd.%d.*.*", n))
	}
	bustest.Eventually(o.t, "the other runner has a consumer, and the runner is refused one", func() bool {
		if there := consumers(o.t, o.c); !slices.Contains(there, "other_1") {
			for _, name := range there { // without waiting for the answer: the runner would be faster with another one
				o.must(o.c.NATS().Publish("$JS.API.CONSUMER.DELETE."+schemas.StreamCommands+"."+name, nil))
			}
			_, _ = o.c.JetStream().CreateConsumer(bustest.Deadline(o.t), schemas.StreamCommands, config)
		}
		m, err := audit.NextMsg(10 * time.Millisecond)
		return err == nil && strings.Contains(string(m.Data), "10100") && strings.Contains(string(m.Data), "r1_")
	})
}

// patient are options of a runner that does not take the other one for dead on a busy machine.
func patient() inbox.Options {
	o := bustest.Fast("r1")
	o.Takeover = 6 * time.Second // a heartbeat every 1.5 s
	return o
}

// undisturbed are options of an inbox that takes nobody for dead, and nobody's work away, in the time of a test,
// however busy the machine is.
func undisturbed(id string) inbox.Options {
	o := bustest.Fast(id)
	o.Takeover, o.HandoverWait = time.Minute, time.Minute
	return o
}

func (o *other) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// awaitShared waits until a runner has left the other's share.
func awaitShared(t *testing.T, in *inbox.Inbox) {
	t.Helper()
	bustest.Eventually(t, "the runner leaves the other's share", func() bool {
		n := len(in.Partitions())
		return n > 0 && n < bustest.SmallPartitions
	})
}

// A runner that has lost its consumer, and finds that another one reads all of its share, says that it reads nothing:
// the others would wait for it for ever.
func TestARunnerWithoutAConsumerDoesNotSayThatItReads(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	bustest.RunInbox(t, c, patient(), &fakeHandler{})
	peer := startOther(t, c)
	peer.occupy()
	all := make([]int, bustest.SmallPartitions)
	for n := range all {
		all[n] = n
	}
	peer.reads.Store(&all)
	heartbeats, err := c.NATS().SubscribeSync(c.Subjects().Heartbeat())
	peer.must(err)
	bustest.Eventually(t, "the runner says that it reads nothing", func() bool {
		m, err := heartbeats.NextMsgWithContext(bustest.Deadline(t))
		peer.must(err)
		var said struct {
			ID    string
			Reads []int
		}
		peer.must(json.Unmarshal(m.Data, &said))
		return said.ID == "r1" && len(said.Reads) == 0
	})
	peer.must(heartbeats.Unsubscribe()) // closing the connection would wait for what nobody reads
}

// A request for a consumer that a client library or a suspended server has kept is carried out late: when its runner is
// live and reads something else. Such a consumer must not keep the partitions from their owner.
func TestAConsumerThatIsCreatedLateIsDeleted(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	in, _ := bustest.RunInbox(t, c, patient(), &fakeHandler{})
	peer := startOther(t, c)
	awaitShared(t, in)
	peer.occupy() // and it does not say that it reads anything
	bustest.Eventually(t, "the runner reads its share", func() bool { return len(in.Partitions()) > 0 })
	if now := consumers(t, c); len(now) != 1 || !strings.HasPrefix(now[0], "r1_") {
		t.Errorf("consumers %v", now)
	}
}

// A command may leave its work to another that is at work for the session. If that one was settled by another runner,
// the command stays in the queue for as long as the work takes.
func TestACommandStaysWhileItsWorkIsWithOneThatWasSettledElsewhere(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	rest := make(chan struct{})
	h := &keeping{}
	h.keeps.Store(true)
	h.deliver = func(ctx context.Context, cmd schemas.Command, entered func()) error {
		entered()
		if textOf(cmd) == "wake" {
			<-rest
		}
		return nil
	}
	bustest.RunInbox(t, c, bustest.Fast("r1"), h)
	bustest.Send(t, c, "s1", "wake")
	bustest.Eventually(t, "delivery", func() bool { return h.total() == 1 })
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.DeleteMsg(bustest.Deadline(t), 1); err != nil {
		t.Fatal(err)
	}
	loseConsumer(t, c)
	bustest.Send(t, c, "s1", "steer")
	bustest.Eventually(t, "the steer is tried again and again", func() bool { return h.total() >= 4 })
	if n := bustest.Queued(t, c); n != 1 {
		t.Errorf("%d commands are in the queue, want the steer", n)
	}
	close(rest)
	bustest.Eventually(t, "the queue is empty", func() bool { return bustest.Queued(t, c) == 0 })
	if got := h.texts("s1"); !slices.Equal(got[:2], []string{"wake", "steer"}) {
		t.Errorf("delivered %v", got)
	}
}

// After two runners have read the same, each has settled what the other does not receive.
func TestOverlapIsVerifiedWhenItEnds(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	in, _ := bustest.RunInbox(t, c, patient(), &fakeHandler{})
	peer := startOther(t, c)
	awaitShared(t, in)
	before, mine := consumers(t, c), in.Partitions()
	polls := 0
	bustest.Eventually(t, "a new consumer", func() bool {
		reads := []int{}
		if polls++; polls/16%2 == 1 { // several times: the runner need not look at every heartbeat
			reads = mine
		}
		peer.reads.Store(&reads)
		now := consumers(t, c)
		return len(now) == 1 && !slices.Equal(now, before)
	})
}
