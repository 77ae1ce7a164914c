package dispatch_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/schemas"
)

// toolQueue makes the consumer that the workers of a tool share.
func toolQueue(t testing.TB, c *bus.Conn, tool string) jetstream.Consumer {
	t.Helper()
	queue, err := c.JetStream().CreateOrUpdateConsumer(bustest.Deadline(t), schemas.StreamTools, jetstream.ConsumerConfig{
		Durable: tool, FilterSubject: c.Subjects().Tool(tool, "*", "*"), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: 100 * time.Millisecond, MaxDeliver: -1,
	})
	if err != nil {
		t.Fatal(err)
	}
	return queue
}

func send(t testing.TB, c *bus.Conn, tool string, call schemas.CallKey, effect schemas.Effect) {
	t.Helper()
	req := request(call)
	req.ToolName, req.Effect = tool, effect
	if err := dispatch.New(c).Dispatch(bustest.Deadline(t), req, false); err != nil {
		t.Fatal(err)
	}
}

// take has a worker receive a call and die.
func take(t testing.TB, queue jetstream.Consumer) {
	t.Helper()
	if _, err := queue.Next(jetstream.FetchMaxWait(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
}

func unserved(t testing.TB, c *bus.Conn, after time.Duration) *dispatch.Unserved {
	t.Helper()
	box := registry.NewToolbox(c, nil)
	t.Cleanup(box.Close)
	return dispatch.NewUnserved(c, dispatch.UnservedOptions{ID: "r1", After: after, Toolbox: box})
}

// standIn runs an Unserved until the test ends.
func standIn(t testing.TB, c *bus.Conn, after time.Duration) {
	t.Helper()
	u := unserved(t, c, after)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); u.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
}

// answers are the texts of the results in the inbox, by call.
func answers(t testing.TB, c *bus.Conn) map[schemas.CallKey]string {
	t.Helper()
	stream, err := c.JetStream().Stream(bustest.Deadline(t), schemas.StreamCommands)
	if err != nil {
		t.Fatal(err)
	}
	texts := map[schemas.CallKey]string{}
	for seq := uint64(1); seq <= stream.CachedInfo().State.LastSeq; seq++ {
		msg, err := stream.GetMsg(bustest.Deadline(t), seq)
		if err != nil {
			t.Fatal(err)
		}
		cmd, err := codec.DecodeCommand("s1", schemas.CommandToolResult, msg.Header, msg.Data, "stored", msg.Time)
		if err != nil {
			t.Fatal(err)
		}
		result := cmd.Data.(*schemas.ToolResponse)
		texts[result.Call] = result.Result.Content[0].(schemas.Text).Text
	}
	return texts
}

func TestCallsThatNobodyServesAreAnswered(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	gone, lost, served := toolQueue(t, c, "gone"), toolQueue(t, c, "lost"), toolQueue(t, c, "served")
	bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: "served"})
	send(t, c, "lost", "c1", schemas.EffectUnsafe)
	send(t, c, "lost", "c2", schemas.EffectReadOnly)
	take(t, lost)
	take(t, lost)
	send(t, c, "gone", "c3", "")
	send(t, c, "served", "c4", "")
	standIn(t, c, 300*time.Millisecond)
	want := map[schemas.CallKey]string{
		"c1": schemas.TextOutcomeUnknown, "c2": "no worker serves tool lost", "c3": "no worker serves tool gone",
	}
	bustest.Eventually(t, "three calls are answered", func() bool { return len(answers(t, c)) >= len(want) })
	if d := cmp.Diff(want, answers(t, c)); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
	for _, queue := range []jetstream.Consumer{gone, lost} {
		bustest.Eventually(t, "the queue is empty", func() bool {
			info, err := queue.Info(bustest.Deadline(t))
			return err == nil && info.NumPending == 0 && info.NumAckPending == 0
		})
	}
	if info, err := served.Info(bustest.Deadline(t)); err != nil || info.NumPending != 1 {
		t.Errorf("the call of a tool that is announced was taken: %v, %v", info, err)
	}
}

// TestUnservedCallsNameTheirVersionAndWorkspace has the tool served in another version and another workspace.
func TestUnservedCallsNameTheirVersionAndWorkspace(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: "search", Version: "3", Workspace: "host"})
	bustest.Announce(t, c, "w2", schemas.ToolDefinition{Name: "search"})
	want := map[schemas.CallKey]string{}
	for i, q := range []schemas.ToolQueue{{Tool: "search", Version: "2"}, {Tool: "search", Workspace: "host"},
		{Tool: "search", Version: "2", Workspace: "host"}} {
		toolQueue(t, c, q.Name())
		req := request(schemas.NewCallKey(uint64(i + 1)))
		req.ToolName, req.Version, req.Workspace = q.Tool, q.Version, q.Workspace
		if err := dispatch.New(c).Dispatch(bustest.Deadline(t), req, false); err != nil {
			t.Fatal(err)
		}
		want[req.Call] = "no worker serves tool " + q.String()
	}
	loads, err := dispatch.QueueLoads(bustest.Deadline(t), c)
	if err != nil || len(loads) != 3 || loads[0].Waiting != 1 || loads[0].AtWork != 0 {
		t.Errorf("loads %+v, %v", loads, err)
	}
	standIn(t, c, 300*time.Millisecond)
	bustest.Eventually(t, "three calls are answered", func() bool { return len(answers(t, c)) >= len(want) })
	if d := cmp.Diff(want, answers(t, c)); d != "" {
		t.Errorf("answers (-want +got):\n%s", d)
	}
}

// TestAWorkerThatComesInTimeIsWaitedFor announces a tool again before its call has waited for long enough.
func TestAWorkerThatComesInTimeIsWaitedFor(t *testing.T) {
	t.Parallel()
	c := bustest.New(t)
	queue := toolQueue(t, c, "late")
	send(t, c, "late", "c1", "")
	standIn(t, c, time.Hour)
	bustest.Announce(t, c, "w1", schemas.ToolDefinition{Name: "late"})
	take(t, queue)
	if got := answers(t, c); len(got) != 0 {
		t.Errorf("answered: %v", got)
	}
}
