package sweep_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/bus/sweep"
	"github.com/loopbus/loopbus/schemas"
)

// refusals has the server answer at subjects, as whoever may send to one session can: each answer refuses a prompt.
func refusals(t *testing.T, c *bus.Conn, n int, subject func(i int) string) {
	t.Helper()
	for i := range n {
		err := c.NATS().PublishMsg(&nats.Msg{Subject: "agent.cmd.s1.prompt", Reply: subject(i),
			Header: nats.Header{"Nats-Expected-Stream": {"x"}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	settled(t, c)
}

// settled returns once the server has answered what was sent before.
func settled(t *testing.T, c *bus.Conn) {
	t.Helper()
	for range 2 { // the answers go the way of the requests
		if _, err := c.JetStream().AccountInfo(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
		if err := c.NATS().FlushWithContext(bustest.Deadline(t)); err != nil {
			t.Fatal(err)
		}
	}
}

// deliver has the server deliver an event of s1 to a subject: what is stored there has the subject of the event.
func deliver(t *testing.T, c *bus.Conn, to string) {
	t.Helper()
	ctx := bustest.Deadline(t)
	if _, err := c.JetStream().Publish(ctx, "agent.evt.s1", []byte(strings.Repeat("x", 10<<10))); err != nil {
		t.Fatal(err)
	}
	consumer, err := c.JetStream().CreateOrUpdateConsumer(ctx, schemas.StreamEvents,
		jetstream.ConsumerConfig{Name: "x", FilterSubject: "agent.evt.s1"})
	if err != nil {
		t.Fatal(err)
	}
	next := "$JS.API.CONSUMER.MSG.NEXT." + schemas.StreamEvents + "." + consumer.CachedInfo().Name
	if err := c.NATS().PublishRequest(next, to, []byte(`{"batch":1,"no_wait":true}`)); err != nil {
		t.Fatal(err)
	}
	settled(t, c)
}

// round has a new sweeper sweep once.
func round(t *testing.T, c *bus.Conn) {
	t.Helper()
	if err := sweep.New(c, sweep.Options{}).Round(bustest.Deadline(t)); err != nil {
		t.Fatal(err)
	}
}

func stream(t *testing.T, c *bus.Conn, name string) jetstream.Stream {
	t.Helper()
	s, err := c.JetStream().Stream(bustest.Deadline(t), name)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// limit changes how many bytes a stream may have.
func limit(t *testing.T, c *bus.Conn, name string, bytes int64) {
	t.Helper()
	config := stream(t, c, name).CachedInfo().Config
	config.MaxBytes = bytes
	if _, err := c.JetStream().UpdateStream(bustest.Deadline(t), config); err != nil {
		t.Fatal(err)
	}
}

// An answer in the queue of a tool that nobody serves would stay, and the queues would be full for the calls of all
// sessions. Calls stay.
func TestStrayMessagesInToolQueuesAreRemoved(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	ctx := bustest.Deadline(t)
	req := schemas.ToolRequest{Session: "s1", Call: schemas.NewCallKey(1), ToolCallID: "t1", ToolName: "nobody",
		RunID: "r1", Arguments: []byte(`{}`), StartSeq: 1, Nonce: "n"}
	if err := dispatch.New(c).Dispatch(ctx, req, false); err != nil {
		t.Fatal(err)
	}
	req.Call = schemas.NewCallKey(2) // of another program, which gives it no id
	data, err := schemas.Marshal(req)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.JetStream().Publish(ctx, c.Subjects().Tool("nobody", "s1", string(req.Call)), data); err != nil {
		t.Fatal(err)
	}
	s := sweep.New(c, sweep.Options{})
	for range 2 { // also what comes later
		deliver(t, c, "agent.tool.nobody.s1.c1")
		refusals(t, c, 300, func(i int) string { return fmt.Sprintf("agent.tool.nobody.s1.c%d", i%2+1) })
		refusals(t, c, 300, func(i int) string { return "agent.tool.nobody.s1.c1\x7f" })
		for i := range 5 {
			err := c.NATS().PublishMsg(&nats.Msg{Subject: "$JS.API.DIRECT.GET.AGENT_EVT.agent.evt.s1",
				Reply: fmt.Sprintf("agent.tool.nobody.s1.big%d", i)})
			if err != nil {
				t.Fatal(err)
			}
		}
		bustest.Eventually(t, "answers are stored", func() bool { return bustest.Messages(t, c, schemas.StreamTools) == 608 })
		if err := s.Round(ctx); err != nil {
			t.Fatal(err)
		}
		if n := bustest.Messages(t, c, schemas.StreamTools); n != 2 {
			t.Fatalf("%d messages are left of 2 calls and the answers", n)
		}
	}
	for seq := range uint64(2) {
		m, err := stream(t, c, schemas.StreamTools).GetMsg(ctx, seq+1)
		if err != nil || m.Subject != c.Subjects().Tool("nobody", "s1", string(schemas.NewCallKey(seq+1))) {
			t.Errorf("call %d: %v, %v", seq+1, m, err)
		}
	}
}

// Who calls a tool by hand and makes a mistake is told so by the worker: the call is left to it for a while. Where
// nobody serves the tool it does not stay for ever.
func TestMistakenCallIsLeftToWorker(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	ctx := bustest.Deadline(t)
	s := sweep.New(c, sweep.Options{})
	for _, data := range []string{"not JSON", `{"session":"s2"}`, ""} {
		if _, err := c.JetStream().Publish(ctx, "agent.tool.nobody.s1.c1", []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	for _, step := range []struct {
		age  time.Duration
		left uint64
	}{{0, 3}, {29 * time.Second, 3}, {time.Second, 0}} {
		s.Age(step.age)
		if err := s.Round(ctx); err != nil {
			t.Fatal(err)
		}
		if n := bustest.Messages(t, c, schemas.StreamTools); n != step.left {
			t.Errorf("after %v more %d messages are left, want %d", step.age, n, step.left)
		}
	}
}

// A flood of mistakes is not left for long: who calls by hand makes few.
func TestTooManyMistakesAreRemoved(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	for i := range 5000 {
		if err := c.NATS().Publish(fmt.Sprintf("agent.tool.nobody.s1.c%d", i), []byte("no")); err != nil {
			t.Fatal(err)
		}
	}
	bustest.Eventually(t, "all are stored", func() bool { return bustest.Messages(t, c, schemas.StreamTools) == 5000 })
	round(t, c)
	if n := bustest.Messages(t, c, schemas.StreamTools); n != 4096 {
		t.Errorf("%d messages are left", n)
	}
}

// A stream that keeps timers cannot refuse what is too much, and what it gave up would be a timer: so it has no limit,
// and answers are taken out. Timers fire.
func TestStrayMessagesBesideTimersAreRemoved(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	ctx := bustest.Deadline(t)
	timers := bus.NewTimers(c)
	timer := schemas.Timer{Name: schemas.TimerRetry, RunID: "run1"}
	if err := timers.Schedule(ctx, "s2", time.Now().Add(time.Hour), timer); err != nil {
		t.Fatal(err)
	}
	if err := timers.Schedule(ctx, "s2", time.Now(), schemas.Timer{Name: schemas.TimerRunDeadline}); err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "a timer fires", func() bool { return bustest.Queued(t, c) == 1 })
	for _, subject := range []string{"agent.sched.s1.x\x7f", "agent.due.s1.x\x7f", "agent.sched.s2.retry",
		"agent.due.s1.x"} {
		refusals(t, c, 300, func(int) string { return subject })
	}
	bustest.Eventually(t, "the answers are stored, one of each subject but those with DEL", func() bool {
		return bustest.Messages(t, c, schemas.StreamTimers) == 604
	})
	deliver(t, c, "agent.due.s1.x")
	bustest.Eventually(t, "a delivery is stored", func() bool {
		return bustest.Messages(t, c, schemas.StreamTimers) == 605
	})
	round(t, c)
	if n := bustest.Messages(t, c, schemas.StreamTimers); n != 2 {
		t.Errorf("%d messages are left, want the timer that waits and what is made of the one that was due", n)
	}
	if waits, err := bustest.TimerWaits(ctx, c, "s2", schemas.TimerRetry); err != nil || !waits {
		t.Errorf("the timer waits: %v, %v", waits, err)
	}
}

// Buckets deny the deletion of messages, and a server purges no subjects with DEL. What somebody has put stays as it
// was, for as long as it would have lived, also in a bucket that is full to the last byte.
func TestBucketIsTidied(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{schemas.BucketTools, schemas.BucketRunners, schemas.BucketDeletions,
		schemas.BucketSessions, schemas.BucketResources} {
		for about, del := range map[string]string{"keys": "", "DEL": "\x7f"} {
			t.Run(bucket+" "+about, func(t *testing.T) {
				t.Parallel()
				_, c := bustest.Small(t)
				fillAndSweep(t, c, bucket, del)
			})
		}
	}
}

// A server follows instructions in the headers of what a client publishes, such as to trace the message to a subject,
// with the client's permissions. It sees none behind a status line, with which a message may be stored: what puts the
// message again with its own permissions gives no such instruction.
func TestInstructionsInEntriesAreNotGivenAgain(t *testing.T) {
	t.Parallel()
	srv, c := bustest.Small(t)
	traced, err := c.NATS().SubscribeSync("traced")
	if err != nil {
		t.Fatal(err)
	}
	key := "$KV." + schemas.BucketProfiles + "."
	bustest.PublishRaw(t, srv, key+"zz", "NATS/1.0 200 x\r\nNats-Trace-Dest: traced\r\nkept: y\r\n\r\n", `{"tools":["x"]}`)
	for i := range 4 { // a server has answered there, as it seems
		bustest.PublishRaw(t, srv, key+fmt.Sprint("g", i), "NATS/1.0\r\nNats-Stream: x\r\n\r\n", strings.Repeat("x", 60_000))
	}
	round(t, c)
	m, err := stream(t, c, "KV_"+schemas.BucketProfiles).GetLastMsgForSubject(bustest.Deadline(t), key+"zz")
	if err != nil || m.Sequence < 6 || m.Header.Get("kept") != "y" {
		t.Fatalf("the entry is not put again: %+v, %v", m, err)
	}
	settled(t, c)
	if n, _, err := traced.Pending(); n > 0 || err != nil {
		t.Errorf("the server has published %d traces, %v", n, err)
	}
}

func fillAndSweep(t *testing.T, c *bus.Conn, bucket, del string) {
	ctx, js, name := bustest.Deadline(t), c.JetStream(), "KV_"+bucket
	put := func(ctx context.Context, key, value string, opts ...jetstream.PublishOpt) error {
		_, err := js.Publish(ctx, "$KV."+bucket+"."+key, []byte(value), opts...)
		return err
	}
	for _, err := range []error{put(ctx, "a.w", `{"a":1}`), put(ctx, "b.w", `{"b":1}`, jetstream.WithMsgTTL(time.Hour)),
		put(ctx, "gone.w", `{}`)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	gone := &nats.Msg{Subject: "$KV." + bucket + ".gone.w", Header: nats.Header{"KV-Operation": {"DEL"}}}
	if _, err := js.PublishMsg(ctx, gone); err != nil {
		t.Fatal(err)
	}
	deliver(t, c, "$KV."+bucket+".q.w")
	const room = 128 << 10
	limit(t, c, name, room)
	sent := 0
	bustest.Eventually(t, "the bucket is full", func() bool {
		refusals(t, c, 500, func(int) string { sent++; return fmt.Sprintf("$KV.%s.q%d.w%s", bucket, sent, del) })
		return stream(t, c, name).CachedInfo().State.Bytes > room-500
	})
	if err := put(ctx, "c.w", strings.Repeat("c", 1000), jetstream.WithRetryAttempts(0)); !natsio.NoRoom(err) {
		t.Fatalf("a put to a bucket that is full: %v", err)
	}
	keeps := stream(t, c, name).CachedInfo().Config.MaxMsgsPerSubject > 1 // also the value that is to be replaced
	if err := put(ctx, "a.w", `{"a":2}`, jetstream.WithRetryAttempts(0)); natsio.NoRoom(err) != keeps {
		t.Fatal(err)
	}
	round(t, c)
	if err := put(ctx, "c.w", strings.Repeat("c", 1000)); err != nil {
		t.Fatal(err)
	}
	if keeps {
		if err := put(ctx, "a.w", `{"a":2}`); err != nil {
			t.Fatal(err)
		}
	}
	if n := bustest.Messages(t, c, schemas.StreamEvents); n != 1 {
		t.Errorf("the log has %d messages, want the one event", n)
	}
	s := stream(t, c, name)
	want := uint64(4)
	if keeps {
		want++ // a.w has two
	}
	if info := s.CachedInfo(); info.State.Msgs != want || info.Config.MaxBytes != room {
		t.Errorf("%d messages, limit %d", info.State.Msgs, info.Config.MaxBytes)
	}
	for key, want := range map[string]string{"a.w": `{"a":2}`, "b.w": `{"b":1}`, "gone.w": ""} {
		m, err := s.GetLastMsgForSubject(ctx, "$KV."+bucket+"."+key)
		if err != nil || string(m.Data) != want {
			t.Fatalf("%s: %v, %v", key, m, err)
		}
		ttl := natsio.TimeToLive(m.Header.Get(jetstream.MsgTTLHeader))
		if key == "b.w" && (ttl > time.Hour || ttl < 59*time.Minute) || key != "b.w" && ttl != 0 {
			t.Errorf("%s lives for %v", key, ttl)
		}
		if key == "gone.w" && m.Header.Get("KV-Operation") != "DEL" {
			t.Errorf("%s: %v", key, m.Header)
		}
	}
}

// A bucket that keeps revisions loses none to what lies over it when it is put in order, however many answers come
// meanwhile. What somebody has deleted stays deleted.
func TestEntriesBelowServerAnswersAreKept(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{schemas.BucketProfiles, schemas.BucketDeletions} {
		t.Run(bucket, func(t *testing.T) {
			t.Parallel()
			_, c := bustest.Small(t)
			ctx, js, name := bustest.Deadline(t), c.JetStream(), "KV_"+bucket
			prefix := "$KV." + bucket + "."
			kv, err := js.KeyValue(ctx, bucket)
			if err != nil {
				t.Fatal(err)
			}
			for i := range 40 {
				for _, value := range []string{`{"a":1}`, `{"a":2}`} {
					if _, err := kv.PutString(ctx, fmt.Sprintf("k%d", i), value); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := kv.Delete(ctx, "k39"); err != nil {
				t.Fatal(err)
			}
			refusals(t, c, 4000, func(i int) string { return fmt.Sprintf("%sk%d", prefix, i%40) })
			refusals(t, c, 1000, func(int) string { return prefix + "k1\x7f" })
			bustest.Eventually(t, "the keys are full", func() bool { return bustest.Messages(t, c, name) == 40*64+1000 })
			over, flooded := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(flooded)
				for i := 0; ; i++ {
					select {
					case <-over:
						return
					default:
						err := c.NATS().PublishMsg(&nats.Msg{Subject: "agent.cmd.s1.prompt", Reply: fmt.Sprintf("%sk%d", prefix, i%40),
							Header: nats.Header{"Nats-Expected-Stream": {"x"}}})
						if err != nil {
							t.Error(err)
							return
						}
						if i%20 == 0 {
							_ = c.NATS().FlushWithContext(ctx)
						}
					}
				}
			}()
			round(t, c)
			close(over)
			<-flooded
			settled(t, c)
			said := map[string]string{}
			s := stream(t, c, name)
			state := s.CachedInfo().State
			_, err = natsio.Scan(ctx, js, name, 1, state.LastSeq, func(m natsio.Stored) error {
				key, _ := strings.CutPrefix(m.Subject, prefix)
				switch {
				case strings.Contains(key, "\x7f"):
					t.Errorf("%q is left", key)
				case m.Header.Get("KV-Operation") != "":
					said[key] = ""
				case strings.HasPrefix(string(m.Data), `{"a":`):
					said[key] = string(m.Data)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 40 {
				key, want := fmt.Sprintf("k%d", i), `{"a":2}`
				if i == 39 {
					want = ""
				}
				if got, ok := said[key]; !ok || got != want {
					t.Errorf("%s: %q, %v", key, got, ok)
				}
			}
		})
	}
}
