package service_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/service"
)

// Requests about one session take half of the places: those about others are answered all the same.
func TestOneSessionLeavesRoom(t *testing.T) {
	t.Parallel()
	nc := bustest.New(t).NATS()
	begun, end := make(chan struct{}), make(chan struct{})
	serveEndpoint(t, nc, service.Options{Concurrency: 4, Busy: refusal{}, Timeout: time.Minute}, service.Endpoint{
		Subject: "agent.query.*.e", Share: func(subject string) string { return strings.Split(subject, ".")[2] },
		Answer: func(_ context.Context, r service.Request) ([]byte, error) {
			if string(r.Data) == "slow" {
				begun <- struct{}{}
				<-end
			}
			return []byte("ok"), nil
		}})
	ask := func(session, want string) {
		t.Helper()
		m, err := nc.Request("agent.query."+session+".e", nil, 10*time.Second)
		if err != nil || string(m.Data)+m.Header.Get(micro.ErrorCodeHeader) != want {
			t.Errorf("session %s: %v, %v, want %s", session, m, err, want)
		}
	}
	replies := nats.NewInbox()
	slow, err := nc.SubscribeSync(replies)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := nc.PublishRequest("agent.query.s1.e", replies, []byte("slow")); err != nil {
			t.Fatal(err)
		}
		<-begun
	}
	ask("s1", "{}404")
	ask("s2", "ok")
	close(end)
	for range 2 {
		if _, err := slow.NextMsg(10 * time.Second); err != nil {
			t.Error(err)
		}
	}
	bustest.Eventually(t, "there is room again", func() bool {
		m, err := nc.Request("agent.query.s1.e", nil, 10*time.Second)
		return err == nil && string(m.Data) == "ok"
	})
}
