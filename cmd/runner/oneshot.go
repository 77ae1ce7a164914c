package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// errOver is the cause with which a one-shot runner stops when its run has ended.
var errOver = errors.New("the run is over")

// runOnce is the one-shot form: everything embedded, one prompt sent as any client would send it, the run shown live.
func runOnce(ctx context.Context, o *options, getenv func(string) string, log *slog.Logger, stdout, stderr io.Writer) error {
	if notice := o.models.chosenBecause; notice != "" {
		fmt.Fprintln(stderr, notice)
	}
	s, err := open(ctx, o, log)
	if err != nil {
		return err
	}
	defer s.close()
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	outcome := errors.New("interrupted before the run ended")
	err = s.run(ctx, func(ctx context.Context) {
		defer stop(errOver)
		if show, err := newClient(s, stdout); err != nil {
			outcome = err
		} else {
			outcome = show.prompt(ctx)
		}
	})
	return errors.Join(outcome, err)
}

// client is the one-shot form's other half: a client of the bus like any other.
type client struct {
	o       *options
	conn    *bus.Conn
	store   *eventstore.Store
	events  chan *nats.Msg
	sub     *nats.Subscription
	show    shower
	command string // id of the prompt
}

// shower shows what happens.
type shower interface {
	event(e schemas.Event) error
	update(u schemas.Update) error
	raw(m *nats.Msg) (done bool, err error) // before anything is decoded; done: nothing else is to be shown
}

// showBuffer is how many messages may wait for the terminal.
const showBuffer = 4096

// newClient subscribes before anything is sent, so that nothing of the run is missed.
func newClient(s *service, stdout io.Writer) (*client, error) {
	c := &client{o: s.o, conn: s.conn, store: s.store, events: make(chan *nats.Msg, showBuffer)}
	if s.o.json {
		c.show = &jsonShower{out: stdout}
	} else {
		c.show = newTerminal(stdout)
	}
	sub, err := s.conn.NATS().ChanSubscribe(s.conn.Subjects().Prefix()+".live."+s.o.session+".>", c.events)
	if err != nil {
		return nil, err
	}
	c.sub = sub
	return c, s.conn.NATS().FlushTimeout(connectTimeout)
}

// prompt sends the prompt and shows the run to its end.
func (c *client) prompt(ctx context.Context) error {
	defer func() { _ = c.sub.Unsubscribe() }()
	body, err := schemas.Marshal(schemas.Prompt{Input: schemas.Input{Text: c.o.prompt}})
	if err != nil {
		return err
	}
	// The id is a header, so that even the refusal of a body that nobody reads names it.
	c.command = fmt.Sprintf("prompt-%d", time.Now().UnixNano())
	subject := c.conn.Subjects().Command(c.o.session, schemas.CommandPrompt)
	if _, err := c.conn.JetStream().Publish(ctx, subject, body, jetstream.WithMsgID(c.command)); err != nil {
		return fmt.Errorf("send the prompt to session %s: %w", c.o.session, err)
	}
	for {
		select {
		case m := <-c.events:
			if over, err := c.take(ctx, m); over || err != nil {
				return err
			}
		case <-ctx.Done():
			return fmt.Errorf("session %s: %w", c.o.session, context.Cause(ctx))
		}
	}
}

// take shows one message. over says that the prompt's run has ended, err that it did not end normally.
func (c *client) take(ctx context.Context, m *nats.Msg) (over bool, err error) {
	if m, err = c.whole(ctx, m); err != nil {
		return false, err
	}
	isUpdate := m.Subject == c.conn.Subjects().LiveUpdate(c.o.session)
	done, err := c.show.raw(m)
	if err != nil || done && isUpdate {
		return false, err
	}
	if isUpdate {
		u, err := schemas.DecodeUpdate(m.Header, m.Data)
		if err != nil {
			return false, nil // anybody can publish there
		}
		return false, c.show.update(u)
	}
	e, err := schemas.DecodeEvent(m.Header, m.Data)
	if err != nil {
		return false, fmt.Errorf("event of session %s: %w", c.o.session, err)
	}
	if !done {
		if err := c.show.event(e); err != nil {
			return false, err
		}
	}
	return c.ends(e)
}

// whole returns the message of an event with its payload, which is kept elsewhere if it is big.
func (c *client) whole(ctx context.Context, m *nats.Msg) (*nats.Msg, error) {
	if schemas.DataRef(m.Header) == "" {
		return m, nil
	}
	_, digits, _ := strings.Cut(m.Header.Get(schemas.HeaderID), "/")
	seq, err := strconv.ParseUint(digits, 10, 64)
	if err != nil {
		return nil, fmt.Errorf("event %q of session %s: %w", m.Header.Get(schemas.HeaderID), c.o.session, err)
	}
	for e, err := range c.store.Read(ctx, c.o.session, seq) {
		if err != nil {
			return nil, err
		}
		header, payload, err := schemas.EncodeEvent(e)
		return &nats.Msg{Subject: m.Subject, Header: header, Data: payload}, err
	}
	return nil, fmt.Errorf("event %d of session %s is not in its log", seq, c.o.session)
}

func (c *client) ends(e schemas.Event) (over bool, err error) {
	switch d := e.Data.(type) {
	case *schemas.CommandRejected:
		if d.CommandID == c.command {
			return true, errUnusual
		}
	case *schemas.AgentEnd:
		if e.CorrelationID == c.command && !d.TerminationReason.Normal() {
			return true, errUnusual
		}
		return e.CorrelationID == c.command, nil
	}
	return false, nil
}

// jsonShower prints every event and update as a CloudEvent in JSON.
type jsonShower struct{ out io.Writer }

func (j *jsonShower) raw(m *nats.Msg) (bool, error) {
	e, _, err := bus.DecodeCloudEvent(m.Header, m.Data)
	if err != nil {
		return true, fmt.Errorf("message on %s: %w", m.Subject, err)
	}
	line, err := e.MarshalJSON()
	if err != nil {
		return true, err
	}
	_, err = j.out.Write(append(line, '\n'))
	return true, err
}

func (j *jsonShower) event(schemas.Event) error   { return nil }
func (j *jsonShower) update(schemas.Update) error { return nil }
