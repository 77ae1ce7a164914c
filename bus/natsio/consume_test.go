package natsio_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// pulled is a stream with a pull consumer.
func pulled(t *testing.T) (*bus.Conn, jetstream.Stream) {
	t.Helper()
	_, c := bustest.Small(t)
	stream, err := c.JetStream().CreateStream(bustest.Deadline(t), jetstream.StreamConfig{Name: "PULLED",
		Subjects: []string{"pulled"}, Storage: jetstream.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	_, err = stream.CreateConsumer(bustest.Deadline(t), jetstream.ConsumerConfig{Durable: "all",
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	return c, stream
}

// consume returns what a consumption delivers, and why it ends.
func consume(t *testing.T, c *bus.Conn, o natsio.PullOptions) (got chan *nats.Msg, lost chan error, stop func()) {
	t.Helper()
	got, lost = make(chan *nats.Msg, 10_000), make(chan error, 1)
	stop, err := natsio.Consume(c.JetStream(), "PULLED", "all", o, func(m *nats.Msg) { got <- m },
		func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(stop)
	return got, lost, stop
}

// unbroken checks that a consumption has not ended.
func unbroken(t *testing.T, lost <-chan error) {
	t.Helper()
	select {
	case err := <-lost:
		t.Error(err)
	default:
	}
}

func publish(t *testing.T, c *bus.Conn, data string, header nats.Header) {
	t.Helper()
	msg := &nats.Msg{Subject: "pulled", Data: []byte(data), Header: header}
	if _, err := c.JetStream().PublishMsg(bustest.Deadline(t), msg); err != nil {
		t.Fatal(err)
	}
}

// Messages come in their order, whether a pull request ends by its number of messages, its bytes or its time.
func TestConsumeRenewsItsRequests(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]natsio.PullOptions{
		"messages": {Messages: 3, Bytes: 1 << 20, Expiry: time.Hour, Heartbeat: 30 * time.Second},
		"bytes":    {Messages: 1000, Bytes: 2 << 10, Expiry: time.Hour, Heartbeat: 30 * time.Second},
		"time":     {Messages: 1000, Bytes: 1 << 20, Expiry: 2 * time.Second, Heartbeat: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := pulled(t)
			got, lost, _ := consume(t, c, o)
			for i := range 50 {
				if name == "time" && i == 25 {
					requests, err := c.NATS().SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.PULLED.all")
					if err != nil {
						t.Fatal(err)
					}
					for range 2 {
						if _, err := requests.NextMsg(30 * time.Second); err != nil {
							t.Fatal(err)
						}
					}
				}
				publish(t, c, fmt.Sprintf("%d %s", i, strings.Repeat("x", 200)), nil)
			}
			for i := range 50 {
				if text, _, _ := strings.Cut(string(bustest.Within(t, got).Data), " "); text != fmt.Sprint(i) {
					t.Fatalf("message %d is %s", i, text)
				}
			}
			unbroken(t, lost)
		})
	}
}

// A message that looks like a status is a message: it is delivered, and those behind it too.
func TestConsumeDeliversWhatLooksLikeAStatus(t *testing.T) {
	t.Parallel()
	c, _ := pulled(t)
	got, lost, _ := consume(t, c, natsio.PullOptions{Messages: 10, Bytes: 1 << 20, Expiry: time.Minute,
		Heartbeat: 20 * time.Second})
	codes := []string{"100", "400", "404", "408", "409", "412", "423", "503"}
	for _, code := range codes {
		publish(t, c, "", nats.Header{"Status": {code}, "Description": {"Consumer Deleted"},
			"Nats-Pending-Messages": {"1000"}, "Nats-Pending-Bytes": {"1000"}})
	}
	publish(t, c, "behind them", nil)
	for _, code := range codes {
		if m := bustest.Within(t, got); m.Header.Get("Status") != code {
			t.Errorf("%s is %v", code, m.Header)
		}
	}
	if m := bustest.Within(t, got); string(m.Data) != "behind them" {
		t.Errorf("%q", m.Data)
	}
	unbroken(t, lost)
}

// A consumer that is deleted says so; one that is lost with its server falls silent.
func TestConsumeSaysThatItsConsumerIsLost(t *testing.T) {
	t.Parallel()
	c, stream := pulled(t)
	_, lost, _ := consume(t, c, natsio.PullOptions{Messages: 10, Bytes: 1 << 20, Expiry: time.Minute,
		Heartbeat: 20 * time.Second})
	requested(t, stream)
	if err := stream.DeleteConsumer(bustest.Deadline(t), "all"); err != nil {
		t.Fatal(err)
	}
	if err := bustest.Within(t, lost); !strings.Contains(err.Error(), "409 Consumer Deleted") {
		t.Error(err)
	}
	c, _ = pulled(t)
	silent, err := jetstream.NewWithAPIPrefix(c.NATS(), "silent")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.NATS().Subscribe("silent.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	o := natsio.PullOptions{Messages: 10, Bytes: 1 << 20, Expiry: time.Minute, Heartbeat: 10 * time.Millisecond}
	stop, err := natsio.Consume(silent, "PULLED", "all", o, func(*nats.Msg) {}, func(err error) { lost <- err })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	if err := bustest.Within(t, lost); !strings.Contains(err.Error(), "no heartbeats") {
		t.Error(err)
	}
}

// A consumption that was stopped neither delivers nor fails.
func TestConsumeStops(t *testing.T) {
	t.Parallel()
	c, stream := pulled(t)
	got, lost, stop := consume(t, c, natsio.PullOptions{Messages: 10, Bytes: 1 << 20, Expiry: 100 * time.Millisecond,
		Heartbeat: 50 * time.Millisecond})
	stop()
	publish(t, c, "late", nil)
	bustest.Eventually(t, "no request is left", func() bool {
		info, err := stream.Consumer(bustest.Deadline(t), "all")
		return err == nil && info.CachedInfo().NumWaiting == 0
	})
	if len(got) != 0 || len(lost) != 0 {
		t.Errorf("%d messages, %d errors", len(got), len(lost))
	}
}

// requested waits until the consumer has both requests.
func requested(t *testing.T, stream jetstream.Stream) {
	t.Helper()
	bustest.Eventually(t, "the requests have arrived", func() bool {
		consumer, err := stream.Consumer(bustest.Deadline(t), "all")
		return err == nil && consumer.CachedInfo().NumWaiting == 2
	})
}
