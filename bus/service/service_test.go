package service_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/service"
)

// refusal is an error that says how it is answered.
type refusal struct{}

func (refusal) Error() string { return "no" }

func (refusal) Answer() (code int, reason string, payload []byte) {
	return 404, "not\nhere", []byte("{}")
}

// serve runs a service with an endpoint until the test ends.
func serve(t *testing.T, nc *nats.Conn, o service.Options, answer func(ctx context.Context, r service.Request) ([]byte,
	error)) {
	t.Helper()
	serveEndpoint(t, nc, o, service.Endpoint{Subject: "agent.query.s1.e", Answer: answer})
}

func serveEndpoint(t *testing.T, nc *nats.Conn, o service.Options, e service.Endpoint) {
	t.Helper()
	e.Name, e.Queue = "e", "q"
	o.Name, o.Version = "test", "1.2.3"
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- service.Run(ctx, nc, o, e) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	bustest.Eventually(t, "the service is there", func() bool {
		_, err := nc.Request("$SRV.PING.test", nil, time.Second)
		return err == nil
	})
}

func TestServiceIsListed(t *testing.T) {
	t.Parallel()
	nc := bustest.New(t).NATS()
	serve(t, nc, service.Options{Description: "d"}, func(context.Context, service.Request) ([]byte, error) {
		return []byte("yes"), nil
	})
	if m, err := nc.Request("agent.query.s1.e", nil, 10*time.Second); err != nil || string(m.Data) != "yes" {
		t.Fatalf("%v, %v", m, err)
	}
	read := func(subject string, to any) {
		t.Helper()
		m, err := nc.Request(subject, nil, 10*time.Second)
		if err == nil {
			err = json.Unmarshal(m.Data, to)
		}
		if err != nil {
			t.Fatalf("%s: %v", subject, err)
		}
	}
	var ping micro.Ping
	read("$SRV.PING", &ping)
	var info micro.Info
	read("$SRV.INFO.test."+ping.ID, &info)
	var stats micro.Stats
	bustest.Eventually(t, "the request is counted", func() bool {
		read("$SRV.STATS.test", &stats)
		return stats.Endpoints[0].NumRequests == 1
	})
	if ping.Type != micro.PingResponseType || ping.Name != "test" || ping.Version != "1.2.3" || info.ID != ping.ID ||
		info.Description != "d" || info.Endpoints[0].Subject != "agent.query.s1.e" || info.Endpoints[0].QueueGroup != "q" ||
		stats.Type != micro.StatsResponseType || stats.Endpoints[0].ProcessingTime <= 0 {
		t.Errorf("%+v\n%+v\n%+v", ping, info, stats)
	}
}

// A request cannot make the service publish where only the service may: neither its answers nor what it says of itself.
func TestOnlyInboxesAreAnswered(t *testing.T) {
	t.Parallel()
	nc := bustest.New(t).NATS()
	asked := make(chan struct{}, 10)
	serve(t, nc, service.Options{}, func(context.Context, service.Request) ([]byte, error) {
		asked <- struct{}{}
		return []byte(`{"id":"x"}`), nil
	})
	got, err := nc.SubscribeSync("agent.cmd.>")
	if err != nil {
		t.Fatal(err)
	}
	for _, subject := range []string{"agent.query.s1.e", "$SRV.PING", "$SRV.INFO.test", "$SRV.STATS"} {
		for _, reply := range []string{"agent.cmd.s2.abort", "agent.cmd.s2.approve", "_INBOXagent.x", "agent._INBOX.x"} {
			if err := nc.PublishRequest(subject, reply, nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, subject := range []string{"agent.query.s1.e", "$SRV.PING", "$SRV.INFO.test", "$SRV.STATS"} {
		if _, err := nc.Request(subject, nil, 10*time.Second); err != nil { // what came there before has been taken
			t.Fatalf("%s: %v", subject, err)
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, _ := got.Pending(); n != 0 || len(asked) != 1 {
		t.Errorf("%d commands were published, %d requests answered", n, len(asked))
	}
}

func TestErrorsAreAnswers(t *testing.T) {
	t.Parallel()
	nc := bustest.New(t).NATS()
	serve(t, nc, service.Options{}, func(_ context.Context, r service.Request) ([]byte, error) {
		switch string(r.Data) {
		case "known":
			return nil, fmt.Errorf("wrapped: %w", refusal{})
		case "panic":
			panic("at the disco")
		case "large":
			return make([]byte, 2<<20), nil
		}
		return nil, errors.New("odd")
	})
	for request, want := range map[string]string{"known": "404 not here", "odd": "500 odd",
		"panic": "500 internal error of the service", "large": "500 nats: maximum payload exceeded"} {
		m, err := nc.Request("agent.query.s1.e", []byte(request), 10*time.Second)
		if err != nil {
			t.Fatalf("%s: %v", request, err)
		}
		if got := m.Header.Get(micro.ErrorCodeHeader) + " " + m.Header.Get(micro.ErrorHeader); got != want {
			t.Errorf("%s: %q, want %q", request, got, want)
		}
	}
}

// What is too much is refused at once, and what takes too long is given up.
func TestLimits(t *testing.T) {
	t.Parallel()
	nc := bustest.New(t).NATS()
	begun, end := make(chan struct{}), make(chan struct{})
	o := service.Options{Concurrency: 1, Busy: refusal{}, Timeout: time.Minute}
	serve(t, nc, o, func(ctx context.Context, r service.Request) ([]byte, error) {
		if string(r.Data) == "slow" {
			begun <- struct{}{}
			<-end
		}
		_, limited := ctx.Deadline()
		return fmt.Append(nil, limited), nil
	})
	inbox := nats.NewInbox()
	slow, err := nc.SubscribeSync(inbox)
	if err == nil {
		err = nc.PublishRequest("agent.query.s1.e", inbox, []byte("slow"))
	}
	if err != nil {
		t.Fatal(err)
	}
	<-begun
	m, err := nc.Request("agent.query.s1.e", nil, 10*time.Second)
	if err != nil || m.Header.Get(micro.ErrorCodeHeader) != "404" {
		t.Errorf("beside a slow one: %v, %v", m, err)
	}
	close(end)
	if m, err := slow.NextMsg(10 * time.Second); err != nil || string(m.Data) != "true" {
		t.Errorf("the slow one: %v, %v", m, err)
	}
}
