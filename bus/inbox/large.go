package inbox

import (
	"context"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus/inbox/reader"
	"github.com/loopbus/loopbus/schemas"
)

// hold has the session of a large command ready. If it has to wait for that, the command is not in memory meanwhile,
// and is read again. An abort is not large. If the message was deleted meanwhile its body stays dropped, and there is
// no error.
func (in *Inbox) hold(ctx context.Context, m *reader.Message) (holding context.Context, release func(), err error) {
	b := m.Body.(*body)
	holding, release = ctx, func() {}
	if m.Session == "" { // the message will be rejected
		if b.dropped {
			err = errDropped
		}
		return holding, release, err
	}
	if schemas.DataRef(b.header) != "" {
		m.Aside()
	}
	if holding, release, err = in.handler.Hold(ctx, m.Session, func() { b.DropPayload() }); err != nil {
		return ctx, func() {}, err
	}
	deleted := b.dropped && queue{in}.Refetch(ctx, m)
	if !b.dropped {
		return holding, release, nil
	}
	release()
	if !deleted {
		err = errDropped
	}
	return ctx, func() {}, err
}

// decoded drops the payload of a command that was decoded, but for where its outcome is sent.
func (b *body) decoded() {
	kept := nats.Header{}
	for _, name := range []string{schemas.HeaderReply, schemas.HeaderReplyTo} {
		if value := b.header.Get(name); value != "" {
			kept.Set(name, strings.Clone(value)) // the value may be a part of all of the header
		}
	}
	b.header, b.data, b.dropped = kept, nil, true
}

// dropContent drops what may be large in a command that is in the log. Its delivery goes on for as long as the run that
// it has started.
func dropContent(data schemas.CommandData) {
	switch d := data.(type) {
	case *schemas.Prompt:
		*d = schemas.Prompt{}
	case *schemas.Steer:
		*d = schemas.Steer{}
	case *schemas.FollowUp:
		*d = schemas.FollowUp{}
	case *schemas.SubagentPrompt:
		*d = schemas.SubagentPrompt{}
	case *schemas.ToolResponse:
		*d = schemas.ToolResponse{}
	}
}
