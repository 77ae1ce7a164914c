package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// storedMessage is a message of a log as stored. Export uses these rather than decoded events, because hashes are
// computed over bytes, and because event types unknown to this version must not be lost.
type storedMessage struct {
	header map[string][]string
	hash   string                // to be contained in the next message
	events []schemas.StoredEvent // with their data, wherever it is stored
}

// cloudEvent returns one event of the message with all its attributes.
func (m storedMessage) cloudEvent(e schemas.StoredEvent) (event.Event, error) {
	header, payload := e.Binary()
	if m.header[schemas.HeaderCommit] == nil {
		header = m.header // may have additional headers
	}
	ce, _, err := codec.DecodeCloudEvent(header, payload)
	ce.SetExtension("dataref", nil)
	return ce, err
}

// stored yields the messages of a session's log up to its end at the time of the call. An error is yielded last.
func (l *logs) stored(ctx context.Context, session string) iter.Seq2[storedMessage, error] {
	return func(yield func(storedMessage, error) bool) {
		found := false
		for m, err := range l.store.ReadMessages(ctx, session) {
			if err == nil && m.Foreign {
				continue
			}
			found = true
			var s storedMessage
			if err == nil {
				if s, err = l.split(ctx, session, m); err != nil {
					err = fmt.Errorf("message %d of the stream: %w", m.Stream, err)
				}
			}
			if !yield(s, err) || err != nil {
				return
			}
		}
		if !found {
			yield(storedMessage{}, noLog(session))
		}
	}
}

func (l *logs) split(ctx context.Context, session string, m eventstore.Message) (s storedMessage, err error) {
	s = storedMessage{header: m.Header, hash: schemas.Hash(m.Header, m.Payload)}
	if s.events, err = schemas.SplitLog(session, m.Header, m.Payload); err != nil {
		return s, err
	}
	for i := range s.events {
		e := &s.events[i]
		if e.Ref == "" {
			continue
		}
		if e.Raw, err = l.store.Payload(ctx, e.Ref); err != nil {
			return s, err
		}
		e.Ref = ""
	}
	return s, nil
}
