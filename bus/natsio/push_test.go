package natsio_test

import (
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// push returns a push consumer of a stream with one message.
func push(t *testing.T) (*bus.Conn, *natsio.Push) {
	t.Helper()
	c, _ := pulled(t)
	publish(t, c, "stored", nil)
	p, err := natsio.NewPush(bustest.Deadline(t), c.JetStream(), "PULLED", "pulled", 1)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	if p.Stored != 1 {
		t.Errorf("%d messages are stored", p.Stored)
	}
	return c, p
}

func TestPushDeliversWhatIsStoredAndWhatComes(t *testing.T) {
	t.Parallel()
	c, p := push(t)
	var got []string
	take := func(want string) {
		t.Helper()
		for {
			m := bustest.Within(t, p.Messages)
			md, err := p.Received(m)
			if err != nil {
				t.Fatal(err)
			}
			if md == nil && want == "heartbeat" {
				return
			}
			if md != nil {
				got = append(got, string(m.Data)+m.Header.Get("Status"))
				return
			}
		}
	}
	take("stored")
	take("heartbeat")
	publish(t, c, "", nats.Header{"Status": {"404"}})
	publish(t, c, "last", nil)
	take("404")
	take("last")
	if all := strings.Join(got, " "); all != "stored 404 last" {
		t.Error(all)
	}
}

// Who misses a message, and whose consumer is deleted, learns that the consumer has ended.
func TestPushEnds(t *testing.T) {
	t.Parallel()
	c, p := push(t)
	if _, err := p.Received(bustest.Within(t, p.Messages)); err != nil {
		t.Fatal(err)
	}
	publish(t, c, "missed", nil)
	publish(t, c, "next", nil)
	<-p.Messages
	if _, err := p.Received(bustest.Within(t, p.Messages)); err == nil || !strings.Contains(err.Error(), "was missed") {
		t.Error(err)
	}

	c, p = push(t)
	stream, err := c.JetStream().Stream(bustest.Deadline(t), "PULLED")
	if err != nil {
		t.Fatal(err)
	}
	for name := range stream.ConsumerNames(bustest.Deadline(t)).Name() {
		if err := stream.DeleteConsumer(bustest.Deadline(t), name); err != nil {
			t.Fatal(err)
		}
	}
	for {
		select {
		case m := <-p.Messages:
			if _, err := p.Received(m); err != nil {
				return // the server says that the consumer is deleted
			}
			continue
		case <-p.Silence():
			if p.Silent() == nil {
				t.Error("silence is not reported")
			}
		case <-time.After(60 * time.Second):
			t.Error("the consumer has not ended")
		}
		return
	}
}

// A push consumer begins at a sequence.
func TestPushBeginsAtASequence(t *testing.T) {
	t.Parallel()
	c, _ := pulled(t)
	for _, data := range []string{"one", "two"} {
		publish(t, c, data, nil)
	}
	for i, want := range []string{"one", "two", "three"} {
		from := uint64(i + 1)
		p, err := natsio.NewPush(bustest.Deadline(t), c.JetStream(), "PULLED", "pulled", from)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		if p.Stored != 3-from {
			t.Errorf("from %d on, %d messages are stored", from, p.Stored)
		}
		if from == 3 {
			publish(t, c, "three", nil)
		}
		m := bustest.Within(t, p.Messages)
		for m.Reply == "" { // a heartbeat
			m = bustest.Within(t, p.Messages)
		}
		if string(m.Data) != want {
			t.Errorf("from %d on, the first message is %q", from, m.Data)
		}
	}
}

// A reader that was busy for long is not told that the consumer is silent, as long as it has not taken what has
// arrived.
func TestABusyReaderOfAPushIsNotSilence(t *testing.T) {
	t.Parallel()
	_, p := push(t)
	<-p.Silence()
	if err := p.Silent(); err != nil {
		t.Error(err)
	}
	if _, err := p.Received(bustest.Within(t, p.Messages)); err != nil {
		t.Error(err)
	}
}
