package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// storedEvent is a message of a log as it is stored. An export is made of these and not of decoded events: hashes are
// over bytes, and what this version does not know is not lost.
type storedEvent struct {
	header  map[string][]string
	payload []byte // where it is, in the stream or in the object store
	hash    string // of the message, for the next one
}

// stored yields the messages of a session's log up to its head at the moment of the call. An error is the last thing
// yielded.
func (l *logs) stored(ctx context.Context, session string) iter.Seq2[storedEvent, error] {
	return func(yield func(storedEvent, error) bool) {
		if err := l.readStored(ctx, session, func(e storedEvent) bool { return yield(e, nil) }); err != nil {
			yield(storedEvent{}, err)
		}
	}
}

func (l *logs) readStored(ctx context.Context, session string, yield func(storedEvent) bool) error {
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
		e := storedEvent{header: m.Headers(), payload: m.Data(), hash: schemas.Hash(m.Headers(), m.Data())}
		if ref := schemas.DataRef(e.header); ref != "" {
			if e.payload, err = l.fetch(ctx, ref); err != nil {
				return fmt.Errorf("message %d of the stream: %w", at.Sequence.Stream, err)
			}
		}
		if !yield(e) || at.Sequence.Stream >= head.Sequence {
			return nil
		}
	}
}

// fetch returns a payload out of the object store, where it has the name of its SHA-256.
func (l *logs) fetch(ctx context.Context, ref string) ([]byte, error) {
	name, ok := strings.CutPrefix(ref, "nats://"+schemas.BucketBlobs+"/")
	if !ok {
		return nil, fmt.Errorf("payload %.200q is not in the object store %s", ref, schemas.BucketBlobs)
	}
	bucket, err := l.conn.JetStream().ObjectStore(ctx, schemas.BucketBlobs)
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", schemas.BucketBlobs, err)
	}
	payload, err := bucket.GetBytes(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("payload %s: %w", ref, err)
	}
	if sum := sha256.Sum256(payload); hex.EncodeToString(sum[:]) != name {
		return nil, fmt.Errorf("payload %s has the SHA-256 %x", ref, sum)
	}
	return payload, nil
}
