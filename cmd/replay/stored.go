package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
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
		if err := l.readStored(ctx, session, func(m storedMessage) bool { return yield(m, nil) }); err != nil {
			yield(storedMessage{}, err)
		}
	}
}

func (l *logs) readStored(ctx context.Context, session string, yield func(storedMessage) bool) error {
	subject := l.conn.Subjects().Event(session)
	stream, err := l.conn.JetStream().Stream(ctx, schemas.StreamEvents)
	if err != nil {
		return err
	}
	head, err := stream.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return noLog(session)
	}
	if err != nil {
		return err
	}
	consumer, err := stream.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{FilterSubjects: []string{subject}})
	if err != nil {
		return err
	}
	messages, err := consumer.Messages()
	if err != nil {
		return err
	}
	defer messages.Stop()
	for {
		m, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return err
		}
		at, err := m.Metadata()
		if err != nil {
			return err
		}
		if !schemas.IsLog(session, m.Headers(), m.Data()) {
			if at.Sequence.Stream >= head.Sequence {
				return nil
			}
			continue
		}
		message, err := l.split(ctx, session, m)
		if err != nil {
			return fmt.Errorf("message %d of the stream: %w", at.Sequence.Stream, err)
		}
		if !yield(message) || at.Sequence.Stream >= head.Sequence {
			return nil
		}
	}
}

func (l *logs) split(ctx context.Context, session string, m jetstream.Msg) (s storedMessage, err error) {
	s = storedMessage{header: m.Headers(), hash: schemas.Hash(m.Headers(), m.Data())}
	if s.events, err = schemas.SplitLog(session, m.Headers(), m.Data()); err != nil {
		return s, err
	}
	for i := range s.events {
		e := &s.events[i]
		if e.Ref == "" {
			continue
		}
		if e.Raw, err = l.fetch(ctx, e.Ref); err != nil {
			return s, err
		}
		e.Ref = ""
	}
	return s, nil
}

// fetch returns a payload from the object store, where its name ends with its SHA-256.
func (l *logs) fetch(ctx context.Context, ref string) ([]byte, error) {
	name, ok := strings.CutPrefix(ref, "nats://"+schemas.BucketBlobs+"/")
	if !ok {
		return nil, fmt.Errorf("payload %.200q is not in the object store %s", ref, schemas.BucketBlobs)
	}
	bucket, err := l.conn.JetStream().ObjectStore(ctx, schemas.BucketBlobs)
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", schemas.BucketBlobs, err)
	}
	info, err := bucket.GetInfo(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", ref, err)
	}
	payload, err := natsio.Object(ctx, l.conn.JetStream(), info)
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", ref, err)
	}
	if sum := sha256.Sum256(payload); hex.EncodeToString(sum[:]) != name[strings.LastIndexByte(name, '/')+1:] {
		return nil, fmt.Errorf("payload %s has the SHA-256 %x", ref, sum)
	}
	return payload, nil
}
