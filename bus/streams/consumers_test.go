package streams_test

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/streams"
)

// A consumer that nobody uses ends where whoever reads may make consumers, also one that was made before there was a
// limit and asks for none, or for a longer time.
func TestIdleConsumersOfBucketsExpire(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	ctx, js := bustest.Deadline(t), c.JetStream()
	for name, filter := range map[string]string{"KV_agent_tools": "$KV.agent_tools.>",
		"KV_agent_profiles": "$KV.agent_profiles.>", "OBJ_agent_blobs": "$O.agent_blobs.C.>"} {
		config := configOf(t, c, name)
		if config.ConsumerLimits.InactiveThreshold != 5*time.Minute {
			t.Errorf("%s: consumers may be idle for %v", name, config.ConsumerLimits.InactiveThreshold)
		}
		config.ConsumerLimits = jetstream.StreamConsumerLimits{}
		if _, err := js.UpdateStream(ctx, config); err != nil {
			t.Fatal(err)
		}
		for _, of := range []jetstream.ConsumerConfig{{Durable: "for_ever"},
			{Name: "an_hour", InactiveThreshold: time.Hour}, {Name: "a_minute", InactiveThreshold: time.Minute}} {
			of.FilterSubject = filter
			if _, err := js.CreateConsumer(ctx, name, of); err != nil {
				t.Fatal(err)
			}
		}
		push := jetstream.ConsumerConfig{Durable: "pushed", DeliverSubject: "nowhere", FilterSubject: filter}
		if _, err := js.CreatePushConsumer(ctx, name, push); err != nil {
			t.Fatal(err)
		}
	}
	if err := streams.Setup(ctx, c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"KV_agent_tools", "KV_agent_profiles", "OBJ_agent_blobs"} {
		s, err := js.Stream(ctx, name)
		if err != nil {
			t.Fatal(err)
		}
		if got := s.CachedInfo().Config.ConsumerLimits.InactiveThreshold; got != 5*time.Minute {
			t.Errorf("%s: consumers may be idle for %v", name, got)
		}
		list, pulled := s.ListConsumers(ctx), 0
		for info := range list.Info() {
			want := 5 * time.Minute
			if info.Name == "a_minute" {
				want = time.Minute
			}
			if got := info.Config.InactiveThreshold; got != want {
				t.Errorf("%s: consumer %s may be idle for %v", name, info.Name, got)
			}
			if info.Config.DeliverSubject == "" {
				pulled++
			}
		}
		if err := list.Err(); err != nil || pulled != 3 {
			t.Errorf("%s: %d consumers are left, %v", name, pulled, err)
		}
	}
}

// A tool queue that no worker uses ends after a day, however it was created: the stream has room for 10,000.
func TestIdleQueuesExpire(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	ctx, js := bustest.Deadline(t), c.JetStream()
	config := configOf(t, c, "AGENT_TOOL")
	config.ConsumerLimits = jetstream.StreamConsumerLimits{}
	if _, err := js.UpdateStream(ctx, config); err != nil {
		t.Fatal(err)
	}
	create := func(queue string, idle time.Duration) {
		t.Helper()
		_, err := js.CreateConsumer(ctx, "AGENT_TOOL", jetstream.ConsumerConfig{Durable: queue, InactiveThreshold: idle,
			AckPolicy: jetstream.AckExplicitPolicy, FilterSubject: "agent.tool." + queue + ".*.*"})
		if err != nil {
			t.Fatal(err)
		}
	}
	create("for_ever", 0)
	create("a_week", 7*24*time.Hour)
	create("an_hour", time.Hour)
	if err := streams.Setup(ctx, c, streams.Options{}); err != nil {
		t.Fatal(err)
	}
	create("later", 0)
	for queue, want := range map[string]time.Duration{"for_ever": 24 * time.Hour, "a_week": 24 * time.Hour,
		"an_hour": time.Hour, "later": 24 * time.Hour} {
		consumer, err := js.Consumer(ctx, "AGENT_TOOL", queue)
		if err != nil {
			t.Fatal(err)
		}
		if got := consumer.CachedInfo().Config.InactiveThreshold; got != want {
			t.Errorf("queue %s may be idle for %v, want %v", queue, got, want)
		}
	}
}
