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

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Option configures how one command is sent.
type Option func(*sendOptions)

// sendOptions collects the options of one command.
type sendOptions struct {
	id          string
	traceParent string
	whenBusy    schemas.WhenBusy
	channel     string
	args        json.RawMessage
	channelOnly bool
}

// WithID sets the id of the command: 1 to 128 printable characters, unique within the session. Sending a command
// again with the same id changes nothing. A sender that repeats a command after a crash gets the [Run] that it
// started.
func WithID(id string) Option { return func(s *sendOptions) { s.id = id } }

// WhenBusy sets what a prompt does while a run is in progress. By default the prompt waits and then starts its own
// run.
func WhenBusy(b schemas.WhenBusy) Option { return func(s *sendOptions) { s.whenBusy = b } }

// WithChannel binds the session to a client, from the run of a prompt or continue on: the session gets the tools that
// are announced for the workspace of that name, in addition to its own.
func WithChannel(workspace string) Option { return func(s *sendOptions) { s.channel = workspace } }

// WithArgs makes [Session.Approve] replace the call's arguments. args is a JSON object with all arguments of the
// call. If they do not match the tool's schema, the session refuses the answer with [schemas.RejectInvalidArgs] and
// the call keeps waiting.
func WithArgs(args json.RawMessage) Option { return func(s *sendOptions) { s.args = args } }

// WithChannelOnly is like [WithChannel], but the session has only the tools of that workspace.
func WithChannelOnly(workspace string) Option {
	return func(s *sendOptions) { s.channel, s.channelOnly = workspace, true }
}

// WithTraceParent sets the W3C trace context of the command.
func WithTraceParent(traceParent string) Option {
	return func(s *sendOptions) { s.traceParent = traceParent }
}

// Sent describes a command that the server has stored. A stored command is not lost.
type Sent struct {
	// ID is the id of the command.
	ID string
	// StreamSeq is the sequence of the command in the stream AGENT_CMD.
	StreamSeq uint64
	// Duplicate reports whether the stream received a message with the same session and id within its duplicate window
	// (a few minutes). The command is stored nevertheless, because the earlier message may belong to another sender, or
	// to a deleted session with the same id; the session applies a command once. False does not mean that the command is
	// new: a command sent before the window is not detected here.
	Duplicate bool
}

// Send sends a command of any kind and returns when the server has stored it; it does not wait for the command's
// effect. The client needs the permission to publish the command and, for an input over 400 KiB, which is uploaded
// first, those of the role inputs. Send retries until the command is stored, which its id makes harmless. If the
// inbox takes no more commands during all that time, the error wraps [ErrInboxFull]. If the command may be stored in
// spite of the error, it wraps [ErrUnacknowledged].
func (s *Session) Send(ctx context.Context, data schemas.CommandData, opts ...Option) (Sent, error) {
	kind := data.CommandKind()
	var o sendOptions
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
	unanswered := false // one of the attempts
	publish := func(ctx context.Context) (err error) {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		ack, err = s.c.js.PublishMsg(ctx, msg)
		if natsio.NoRoom(err) {
			return fmt.Errorf("%w (%w)", ErrInboxFull, err)
		}
		err = s.c.explain(err, msg.Subject)
		unanswered = unanswered || natsio.IsAny(err, context.DeadlineExceeded, context.Canceled, nats.ErrTimeout)
		return err
	}
	err = s.c.retry(ctx, publish)
	duplicate := err == nil && ack.Duplicate
	if duplicate {
		msg.Header.Set(jetstream.MsgIDHeader, msg.Header.Get(jetstream.MsgIDHeader)+"/"+rand.Text())
		err = s.c.retry(ctx, publish)
	}
	if err != nil && unanswered {
		err = fmt.Errorf("%w: %w", ErrUnacknowledged, err)
	}
	if err != nil {
		return Sent{}, fmt.Errorf("client: send %s %s to session %s: %w", kind, o.id, s.id, err)
	}
	return Sent{ID: o.id, StreamSeq: ack.Sequence, Duplicate: duplicate}, nil
}

// message encodes a command as a CloudEvent in binary mode: its id is a header, so a runner can name the command in
// its refusal even if it cannot decode the data.
func (s *Session) message(data schemas.CommandData, o sendOptions) (*nats.Msg, error) {
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
		// The stream deduplicates across sessions, but a command id is unique only within its session.
		jetstream.MsgIDHeader: {s.id + "/" + id},
	}
	if o.traceParent != "" {
		header[schemas.HeaderTraceParent] = []string{schemas.EncodeHeaderValue(o.traceParent)}
	}
	return &nats.Msg{Subject: s.c.subjects.Command(s.id, kind), Header: header, Data: body}, nil
}

// apply returns a copy of the command with the options applied. It fails if an option does not fit the kind of
// command.
func (o sendOptions) apply(data schemas.CommandData) (schemas.CommandData, error) {
	bound := schemas.Binding{Channel: o.channel, ChannelOnly: o.channelOnly}
	if _, ok := data.(*schemas.Approve); !ok && o.args != nil {
		return nil, errors.New("WithArgs applies to approvals only")
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
		return nil, errors.New("WhenBusy applies to prompts only, WithChannel to prompts and continue")
	}
	return data, nil
}
