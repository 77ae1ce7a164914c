package pubsub_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/pubsub"
)

// player answers pull requests in the place of a server.
type player struct {
	t        *testing.T
	nc       *nats.Conn
	requests chan *nats.Msg
	puller   pubsub.Puller
}

// ghost is a consumer that no server has.
type ghost struct{ jetstream.Consumer }

func (ghost) CachedInfo() *jetstream.ConsumerInfo {
	return &jetstream.ConsumerInfo{Stream: "S", Name: "C"}
}

func newPlayer(t *testing.T) *player {
	t.Helper()
	server, c := bustest.Small(t)
	p := &player{t: t, nc: bustest.Connect(t, server).NATS(), requests: make(chan *nats.Msg, 8)}
	if _, err := p.nc.ChanSubscribe("GHOST.CONSUMER.MSG.NEXT.S.C", p.requests); err != nil {
		t.Fatal(err)
	}
	p.flush()
	js, err := jetstream.NewWithAPIPrefix(c.NATS(), "GHOST")
	if err != nil {
		t.Fatal(err)
	}
	p.puller = pubsub.NewPuller(js)
	t.Cleanup(p.puller.Close)
	return p
}

func (p *player) flush() {
	if err := p.nc.Flush(); err != nil {
		p.t.Fatal(err)
	}
}

type pulled struct {
	msg jetstream.Msg
	err error
}

// pull begins a request and returns the subject of its answer.
func (p *player) pull(wait time.Duration) (reply string, done <-chan pulled) {
	p.t.Helper()
	result := make(chan pulled, 1)
	go func() {
		msg, err := p.puller.Pull(ghost{}, wait)
		result <- pulled{msg, err}
	}()
	select {
	case request := <-p.requests:
		return request.Reply, result
	case <-bustest.Deadline(p.t).Done():
		p.t.Fatal("nothing was asked for")
		return "", nil
	}
}

func (p *player) answer(reply, status, data string) {
	p.t.Helper()
	m := &nats.Msg{Subject: reply, Data: []byte(data), Header: nats.Header{}}
	if status != "" {
		m.Header.Set("Status", status)
		m.Header.Set("Description", "because")
	}
	if err := p.nc.PublishMsg(m); err != nil {
		p.t.Fatal(err)
	}
	p.flush()
}

func (p *player) wait(done <-chan pulled) pulled {
	p.t.Helper()
	select {
	case r := <-done:
		return r
	case <-bustest.Deadline(p.t).Done():
		p.t.Fatal("the pull does not end")
		return pulled{}
	}
}

// One subscription serves all requests of a slot.
func TestPullerKeepsItsSubscription(t *testing.T) {
	t.Parallel()
	p := newPlayer(t)
	inboxes := map[string]bool{}
	for _, status := range []string{"404", "408", ""} {
		reply, done := p.pull(time.Minute)
		inboxes[reply[:strings.LastIndexByte(reply, '.')]] = true
		p.answer(reply, "100", "")
		p.answer(reply, status, strings.Repeat("x", 3-len(status)))
		if r := p.wait(done); r.err != nil || (r.msg != nil) != (status == "") {
			t.Errorf("status %q: %v", status, r)
		}
	}
	if len(inboxes) != 1 {
		t.Errorf("%d subscriptions", len(inboxes))
	}
}

func TestPullerTellsWhatTheServerRefuses(t *testing.T) {
	t.Parallel()
	p := newPlayer(t)
	reply, done := p.pull(time.Minute)
	p.answer(reply, "409", "")
	if r := p.wait(done); r.err == nil || !strings.Contains(r.err.Error(), "409 because") {
		t.Errorf("%v", r)
	}
	// What is still said of it is not taken for the answer to the next request.
	next, done := p.pull(time.Minute)
	p.answer(reply, "404", "")
	p.answer(next, "", "a message")
	if r := p.wait(done); r.msg == nil || string(r.msg.Data()) != "a message" {
		t.Errorf("%v", r)
	}
}

// An answer that comes when nobody waits for it any more is lost: its message may be another worker's by then.
func TestPullerForgetsARequestWithoutAnswer(t *testing.T) {
	t.Parallel()
	p := newPlayer(t)
	reply, done := p.pull(time.Millisecond)
	if r := p.wait(done); r.msg != nil || r.err != nil {
		t.Errorf("%v", r)
	}
	next, done := p.pull(time.Minute)
	p.answer(reply, "", "late")
	p.answer(next, "", "in time")
	if r := p.wait(done); r.msg == nil || string(r.msg.Data()) != "in time" {
		t.Errorf("%v", r)
	}
}

// What has come is taken, however late it is read.
func TestPullerTakesWhatHasCome(t *testing.T) {
	t.Parallel()
	p := newPlayer(t)
	for range 20 { // the time and the answer are over at once, and either may be seen first
		reply, done := p.pull(time.Minute)
		p.answer(reply, "404", "")
		p.wait(done)
		dot := strings.LastIndexByte(reply, '.')
		request, err := strconv.ParseUint(reply[dot+1:], 36, 64)
		if err != nil {
			t.Fatal(err)
		}
		p.answer(reply[:dot+1]+strconv.FormatUint(request+1, 36), "", "it has come")
		_, done = p.pull(-time.Hour)
		if r := p.wait(done); r.msg == nil || string(r.msg.Data()) != "it has come" {
			t.Fatalf("%v", r)
		}
	}
}

// A message that a puller brings can do what one of package jetstream can.
func TestDeliveredIsAMessage(t *testing.T) {
	t.Parallel()
	_, c := bustest.Small(t)
	ctx, js := bustest.Deadline(t), c.JetStream()
	if _, err := js.CreateStream(ctx, jetstream.StreamConfig{Name: "S", Subjects: []string{"s.*"},
		Retention: jetstream.WorkQueuePolicy}); err != nil {
		t.Fatal(err)
	}
	consumer, err := js.CreateConsumer(ctx, "S",
		jetstream.ConsumerConfig{Durable: "C", AckPolicy: jetstream.AckExplicitPolicy})
	if err != nil {
		t.Fatal(err)
	}
	p := pubsub.NewPuller(js)
	defer p.Close()
	for i, settle := range []func(jetstream.Msg) error{
		jetstream.Msg.Ack, jetstream.Msg.Term,
		func(m jetstream.Msg) error { return m.DoubleAck(ctx) },
		func(m jetstream.Msg) error { return m.TermWithReason("enough") },
		func(m jetstream.Msg) error {
			if err := m.Nak(); err != nil {
				return err
			}
			return again(ctx, t, p, consumer, 2).Ack()
		},
		func(m jetstream.Msg) error {
			if err := m.NakWithDelay(time.Millisecond); err != nil {
				return err
			}
			return again(ctx, t, p, consumer, 2).Ack()
		},
	} {
		if _, err := js.Publish(ctx, "s.x", []byte("data"), jetstream.WithMsgID(string(rune('a'+i)))); err != nil {
			t.Fatal(err)
		}
		m := again(ctx, t, p, consumer, 1)
		if m.Subject() != "s.x" || string(m.Data()) != "data" || m.Headers().Get(jetstream.MsgIDHeader) == "" ||
			m.InProgress() != nil {
			t.Errorf("message %v", m)
		}
		if err := settle(m); err != nil {
			t.Errorf("settling %d: %v", i, err)
		}
		bustest.Eventually(t, "it is settled", func() bool {
			info, err := js.Stream(ctx, "S")
			return err == nil && info.CachedInfo().State.Msgs == 0
		})
	}
}

// again pulls until a message comes, which must be at its nth delivery.
func again(ctx context.Context, t *testing.T, p pubsub.Puller, c jetstream.Consumer, n uint64) jetstream.Msg {
	t.Helper()
	for ctx.Err() == nil {
		m, err := p.Pull(c, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if m == nil {
			continue
		}
		if md, err := m.Metadata(); err != nil || md.NumDelivered != n || md.Stream != "S" || md.Consumer != "C" {
			t.Errorf("metadata %+v, %v", md, err)
		}
		return m
	}
	t.Fatal("no message")
	return nil
}
