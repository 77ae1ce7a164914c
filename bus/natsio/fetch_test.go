package natsio_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// late is a context whose deadline has passed, and that does not say so yet.
type late struct{ context.Context }

func (late) Deadline() (time.Time, bool) { return time.Now().Add(-time.Nanosecond), true }

// fetch returns the data of what a fetch yields, and its error.
func fetch(ctx context.Context, js jetstream.JetStream, c jetstream.Consumer, n, limit int) (data []string, err error) {
	for m, failed := range natsio.Fetch(ctx, js, c.CachedInfo(), n, limit) {
		if err = failed; err == nil {
			data = append(data, string(m.Data))
		}
	}
	return data, err
}

func TestFetch(t *testing.T) {
	t.Parallel()
	ctx := bustest.Deadline(t)
	js := bustest.Connect(t, bustest.Server(t)).JetStream()
	_, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s"}})
	if err != nil {
		t.Fatal(err)
	}
	c, err := js.CreateConsumer(ctx, "S", jetstream.ConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(late{ctx}, js, c, 1, 1<<10); !errors.Is(err, context.DeadlineExceeded) || !natsio.Passing(err) {
		t.Errorf("too late: %v", err)
	}
	soon, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
	defer cancel()
	if data, err := fetch(soon, js, c, 1, 1<<10); err != nil && !natsio.Passing(err) || data != nil {
		t.Errorf("of an empty stream: %q, %v", data, err)
	}
	status := func(code string) *nats.Msg { // a stored message is none, whatever its header
		return &nats.Msg{Subject: "s", Header: nats.Header{"Status": {code}}}
	}
	for _, m := range []*nats.Msg{{Subject: "s", Data: []byte("a")}, status("100"), status("404"), status("408"),
		status("409"), status("503"), {Subject: "s", Data: []byte("b")}, {Subject: "s", Data: make([]byte, 1<<10)}} {
		if _, err := js.PublishMsg(ctx, m); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := fetch(ctx, js, c, 10, 1<<10); err != nil || strings.Join(data, ",") != "a,,,,,,b" {
		t.Errorf("fetched %q, %v", data, err)
	}
	deleted := make(chan error)
	go func() {
		for {
			info, err := c.Info(ctx)
			if err != nil || info.NumWaiting > 0 {
				break
			}
		}
		deleted <- js.DeleteConsumer(ctx, "S", c.CachedInfo().Name)
	}()
	if data, err := fetch(ctx, js, c, 2, 4<<10); len(data) != 1 || !errors.Is(err, natsio.ErrConsumerLost) {
		t.Errorf("%d messages of a consumer that is deleted: %v", len(data), err)
	}
	if err := <-deleted; err != nil {
		t.Fatal(err)
	}
	if _, err := fetch(ctx, js, c, 1, 1<<10); !natsio.Passing(err) {
		t.Errorf("of a consumer that was deleted: %v", err)
	}
}
