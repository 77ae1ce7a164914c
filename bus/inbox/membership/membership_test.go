package membership_test

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/inbox/membership"
)

// never is after how long a runner is taken for dead in tests where none should be, however busy the machine is.
// Between two of its heartbeats there are seconds then, so that what comes sooner has not waited for one.
const never = time.Minute

// join has a runner live until the test ends or it is told to leave.
func join(t *testing.T, c *bus.Conn, id string, log *bustest.Log) (m *membership.Membership, leave func()) {
	t.Helper()
	return joinFor(t, c, id, log, never)
}

// joinFor is join of a runner that takes others for dead after some time.
func joinFor(t *testing.T, c *bus.Conn, id string, log *bustest.Log, deadAfter time.Duration) (
	m *membership.Membership, leave func()) {
	t.Helper()
	if log == nil {
		log = &bustest.Log{}
	}
	m = membership.New(membership.Options{
		ID: id, DeadAfter: deadAfter, Network: membership.NewNATS(c.NATS(), c.JetStream(), c.Subjects(), id),
		Logger: log.Logger(),
	})
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.Run(ctx, func() { close(ready) }); err != nil && !c.NATS().IsClosed() {
			t.Error(err)
		}
	}()
	leave = func() { cancel(); <-ended }
	t.Cleanup(leave)
	select {
	case <-ready:
	case <-time.After(90 * time.Second):
		t.Fatalf("runner %s is not ready", id)
	}
	return m, leave
}

func wantLive(t *testing.T, m *membership.Membership, ids ...string) {
	t.Helper()
	bustest.Eventually(t, "live are "+strings.Join(ids, ", "), func() bool { return slices.Equal(m.View().IDs, ids) })
}

// say publishes a heartbeat as a runner would, field by field.
func say(t *testing.T, c *bus.Conn, heartbeat map[string]any) {
	t.Helper()
	data, err := json.Marshal(heartbeat)
	if err == nil {
		err = c.NATS().Publish("agent.runner.heartbeat", data)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunnersKnowEachOtherAtOnce(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	a, _ := join(t, c, "a", nil)
	a.SetReads([]int{1, 2})
	began := time.Now()
	b, _ := join(t, bustest.Connect(t, s), "b", nil)
	if view := b.View(); !slices.Equal(view.IDs, []string{"a", "b"}) || view.Reads[1] != "a" || view.Reads[2] != "a" {
		t.Errorf("the newcomer knows %+v", view)
	}
	if took := time.Since(began); took > never/6 {
		t.Errorf("it took %s: a heartbeat was waited for", took)
	}
	wantLive(t, a, "a", "b")
}

func TestAGoodbyeIsHeardAndIsNoLoss(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	a, _ := join(t, c, "a", nil)
	_, leave := join(t, bustest.Connect(t, s), "b", nil)
	wantLive(t, a, "a", "b")
	leave()
	wantLive(t, a, "a")
	if lost := a.View().Lost; lost != 0 {
		t.Errorf("%d runners are lost", lost)
	}
}

// wantReason wants the one runner that is not live any more to be gone for this reason. The log comes behind the view.
func wantReason(t *testing.T, log *bustest.Log, want string) {
	t.Helper()
	bustest.Eventually(t, "the reason is logged", func() bool {
		return strings.Contains(log.String(), "not live any more")
	})
	if !strings.Contains(log.String(), want) {
		t.Errorf("want %q:\n%s", want, log.String())
	}
}

func TestAClosedConnectionIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	var log bustest.Log
	a, _ := join(t, c, "a", &log)
	conn := bustest.Connect(t, s)
	join(t, conn, "b", nil)
	wantLive(t, a, "a", "b")
	conn.NATS().Close()
	wantLive(t, a, "a")
	if lost := a.View().Lost; lost != 1 {
		t.Errorf("%d runners are lost", lost)
	}
	wantReason(t, &log, "connection is closed")
}

// A runner that is suspended has a connection, and says nothing.
func TestMissingHeartbeatsAreNoticed(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	var log bustest.Log
	a, _ := joinFor(t, c, "a", &log, time.Second)
	other := bustest.Connect(t, s)
	if _, err := other.NATS().Subscribe("agent.runner.probe.b", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	say(t, other, map[string]any{"id": "b"})
	wantLive(t, a, "a", "b")
	wantLive(t, a, "a")
	wantReason(t, &log, "has been silent for 1s")
}

func TestAFalseAlarmIsContradicted(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	a, _ := join(t, c, "a", nil)
	b, _ := join(t, bustest.Connect(t, s), "b", nil)
	wantLive(t, a, "a", "b")
	beats, err := c.NATS().SubscribeSync("agent.runner.heartbeat")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = beats.Unsubscribe() }() // what nobody reads keeps the connection from closing
	b.SetReads([]int{7})
	say(t, c, map[string]any{"id": "b", "gone": true, "by": "x"})
	for seen := false; !seen; {
		m, err := beats.NextMsg(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		seen = strings.Contains(string(m.Data), `"id":"b"`) && strings.Contains(string(m.Data), `[7]`)
	}
	wantLive(t, a, "a", "b")
}

func TestASecondProcessWithTheSameIDIsTold(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	var log bustest.Log
	join(t, c, "a", &log)
	join(t, bustest.Connect(t, s), "a", nil)
	bustest.Eventually(t, "it is told", func() bool { return strings.Contains(log.String(), "the same runner id") })
}

func TestGarbageIsNoHeartbeat(t *testing.T) {
	t.Parallel()
	s, c := bustest.Small(t)
	a, _ := join(t, c, "a", nil)
	other := bustest.Connect(t, s)
	for _, garbage := range []string{"", "x", `{"id":"a.b"}`, `{"id":7}`, `[]`} {
		if err := other.NATS().Publish("agent.runner.heartbeat", []byte(garbage)); err != nil {
			t.Fatal(err)
		}
	}
	say(t, other, map[string]any{"id": "b"})
	wantLive(t, a, "a", "b")
}
