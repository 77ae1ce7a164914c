package client

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// Option changes how one command is sent.
type Option func(*sending)

// sending is what the options of one command come to.
type sending struct {
	id          string
	traceParent string
	whenBusy    schemas.WhenBusy
	channel     string
	args        json.RawMessage
	channelOnly bool
}

// WithID gives the command its id, 1 to 128 printable characters that are unique within the session. A command that is
// sent again with its id changes nothing. A sender that repeats one after a crash gets the [Run] that it has begun.
func WithID(id string) Option { return func(s *sending) { s.id = id } }

// WhenBusy says what a prompt does while a run is under way; without it, the prompt waits for a run of its own.
func WhenBusy(b schemas.WhenBusy) Option { return func(s *sending) { s.whenBusy = b } }

// WithChannel binds the session to a client from the run of a prompt or continue on: the tools that are announced for a
// workspace of that name come on top of the session's own.
func WithChannel(workspace string) Option { return func(s *sending) { s.channel = workspace } }

// WithArgs has [Session.Approve] change the call's arguments: args, a JSON object, are all that it is executed with.
// The session refuses those that do not fit the tool's schema with [schemas.RejectInvalidArgs], and the call waits on.
func WithArgs(args json.RawMessage) Option { return func(s *sending) { s.args = args } }

// WithChannelOnly is [WithChannel], but the session has the tools of that workspace and no others.
func WithChannelOnly(workspace string) Option {
	return func(s *sending) { s.channel, s.channelOnly = workspace, true }
}

// WithTraceParent gives the command its W3C trace context.
func WithTraceParent(traceParent string) Option {
	return func(s *sending) { s.traceParent = traceParent }
}

// Sent is a command that the server has stored: from then on it is not lost.
type Sent struct {
	ID string // the command's
	// StreamSeq is where it is stored in AGENT_CMD.
	StreamSeq uint64
	// Duplicate says that the stream has had a message of this name within the last minutes. The command is stored all the
	// same: the one before may have been somebody else's, or of a session of this id that was deleted. A session takes a
	// command once. One that was sent earlier is not known by this.
	Duplicate bool
}

// Send sends a command of any kind and returns when the server has stored it, without waiting for what it does. It
// takes the permission to publish it and, for an input over 400 KiB, which is uploaded, those of the role inputs. It is
// sent again until it is stored, which its id makes harmless.
func (s *Session) Send(ctx context.Context, data schemas.CommandData, opts ...Option) (Sent, error) {
	kind := data.CommandKind()
	var o sending
	for _, opt := range opts {
		opt(&o)
	}
	o.id = cmp.Or(o.id, "client-"+rand.Text())
	msg, err := s.message(data, o)
	if err != nil {
		return Sent{}, fmt.Errorf("client: send %s to session %.80s: %w", kind, s.id, err)
	}
	var ack *jetstream.PubAck
	if len(msg.Data) > maxInline {
		ref, err := s.c.upload(ctx, msg.Data)
		if err != nil {
			return Sent{}, fmt.Errorf("client: send %s to session %s: upload its data: %w", kind, s.id, err)
		}
		msg.Header[schemas.HeaderDataRef], msg.Data = []string{schemas.EncodeHeaderValue(ref)}, nil
	}
	publish := func(ctx context.Context) (err error) {
		ack, err = s.c.js.PublishMsg(ctx, msg)
		return s.c.explain(err, msg.Subject)
	}
	err = s.c.persist(ctx, publish)
	duplicate := err == nil && ack.Duplicate
	if duplicate {
		msg.Header.Set(jetstream.MsgIDHeader, msg.Header.Get(jetstream.MsgIDHeader)+"/"+rand.Text())
		err = s.c.persist(ctx, publish)
	}
	if err != nil {
		return Sent{}, fmt.Errorf("client: send %s %s to session %s: %w", kind, o.id, s.id, err)
	}
	return Sent{ID: o.id, StreamSeq: ack.Sequence, Duplicate: duplicate}, nil
}

// message is a command as a CloudEvent in binary mode, so that even the refusal of data that nobody can read names the
// command's id.
func (s *Session) message(data schemas.CommandData, o sending) (*nats.Msg, error) {
	kind := data.CommandKind()
	data, err := o.apply(data)
	if err != nil {
		return nil, err
	}
	body, err := schemas.Marshal(data)
	if err = errors.Join(schemas.CheckSession(s.id), schemas.CheckCommandID(o.id), err); err != nil {
		return nil, err
	}
	id := schemas.EncodeHeaderValue(o.id)
	header := nats.Header{
		schemas.HeaderSpecVersion:     {schemas.SpecVersion},
		schemas.HeaderID:              {id},
		schemas.HeaderSource:          {schemas.EncodeHeaderValue(s.c.o.Source)},
		schemas.HeaderType:            {schemas.CloudEventType(kind)},
		schemas.HeaderSubject:         {s.id},
		schemas.HeaderDataContentType: {schemas.ContentJSON},
		// The stream knows these ids in all sessions, and a session's own are unique in it only.
		jetstream.MsgIDHeader: {s.id + "/" + id},
	}
	if o.traceParent != "" {
		header[schemas.HeaderTraceParent] = []string{schemas.EncodeHeaderValue(o.traceParent)}
	}
	return &nats.Msg{Subject: s.c.subjects.Command(s.id, kind), Header: header, Data: body}, nil
}

// apply puts what the options say into a copy of the command.
func (o sending) apply(data schemas.CommandData) (schemas.CommandData, error) {
	bound := schemas.Binding{Channel: o.channel, ChannelOnly: o.channelOnly}
	if _, ok := data.(*schemas.Approve); !ok && o.args != nil {
		return nil, errors.New("WithArgs is for an approval")
	}
	switch c := data.(type) {
	case *schemas.Approve:
		if o.args != nil {
			data = &schemas.Approve{ApprovalAnswer: c.ApprovalAnswer, Args: o.args}
		}
	case *schemas.Prompt:
		with := *c
		with.WhenBusy = cmp.Or(o.whenBusy, with.WhenBusy)
		if o.channel != "" {
			with.Binding = bound
		}
		return &with, nil
	case *schemas.Continue:
		if o.channel != "" && o.whenBusy == "" {
			return &schemas.Continue{Binding: bound}, nil
		}
	}
	if o.whenBusy != "" || o.channel != "" {
		return nil, errors.New("WhenBusy is for prompts, WithChannel for prompts and continue")
	}
	return data, nil
}
