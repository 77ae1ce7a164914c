package watchdog_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/watchdog"
)

// A session with a message in a queue is left alone, and so is one whose log grows.
func TestSilentSessionsAreChecked(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	for _, subject := range []string{"agent.tool.bash.called.c9", "agent.cmd.commanded.prompt"} {
		if _, err := c.JetStream().Publish(bustest.Deadline(t), subject, []byte("{}")); err != nil {
			t.Fatal(err)
		}
	}
	checks := make(chan *nats.Msg, 128)
	sub, err := c.NATS().ChanSubscribe("agent.sched.>", checks)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	rounds := 0
	dog := watchdog.New(c, watchdog.Options{
		Every: 10 * time.Millisecond, Silent: 50 * time.Millisecond, Longest: time.Hour,
		Sessions: func() []watchdog.Session {
			if rounds++; rounds == 100 {
				cancel()
			}
			growing := watchdog.Session{Name: "growing", Last: uint64(rounds)}
			return []watchdog.Session{{Name: "called"}, {Name: "commanded"}, {Name: "silent"}, growing}
		},
	})
	go func() { dog.Run(ctx); close(ended) }()
	select {
	case <-ended:
	case <-time.After(90 * time.Second):
		t.Fatal("it does not end")
	}
	if err := c.NATS().Flush(); err != nil {
		t.Fatal(err)
	}
	if len(checks) == 0 {
		t.Error("the silent session was not checked")
	}
	for range len(checks) {
		if m := <-checks; !strings.HasPrefix(m.Subject, "agent.sched.silent.check-") {
			t.Errorf("set: %s", m.Subject)
		}
	}
}

// Many silent sessions that have messages in a queue do not keep the watchdog from one that has none.
func TestSilentSessionsAreCheckedInTurn(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	var all []watchdog.Session
	for i := range 700 {
		session := fmt.Sprintf("s%03d", i)
		if _, err := c.JetStream().PublishAsync("agent.tool.bash."+session+".c9", []byte("{}")); err != nil {
			t.Fatal(err)
		}
		all = append(all, watchdog.Session{Name: session})
	}
	<-c.JetStream().PublishAsyncComplete()
	checks := make(chan *nats.Msg, 128)
	sub, err := c.NATS().ChanSubscribe("agent.sched.>", checks)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = sub.Unsubscribe() }()
	all = append(all, watchdog.Session{Name: "lost"})
	dog := watchdog.New(c, watchdog.Options{Every: time.Millisecond, Silent: time.Millisecond, Longest: time.Millisecond,
		Sessions: func() []watchdog.Session { return all }})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { dog.Run(ctx); close(ended) }()
	if m := bustest.Within(t, checks); !strings.HasPrefix(m.Subject, "agent.sched.lost.check-") {
		t.Errorf("set: %s", m.Subject)
	}
	cancel()
	<-ended
}
