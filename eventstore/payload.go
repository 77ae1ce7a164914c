package eventstore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const blobScheme = "nats://" + schemas.BucketBlobs + "/"

// blob is a payload in the object store. Its name is <session>/<writer>/<digest>. No other session and no other writer
// of the session has the same name, so the payload may be deleted with the session, and by a writer whose commit was
// refused. In logs of earlier versions the name is the digest alone.
type blob struct {
	name string
	data []byte
	put  bool // the object is this commit's: before, there was none of that name
}

// blobRef returns the value of ce-dataref for the object with this name.
func blobRef(name string) string { return blobScheme + name }

// digestOf returns the SHA-256 of a payload in hex, the last part of its object's name.
func digestOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// OwnPayload reports whether a data reference refers to a payload of this session. It returns false for a payload of an
// earlier version, which named payloads by their digest alone: events of other sessions may refer to the same payload.
func OwnPayload(session, ref string) bool { return strings.HasPrefix(ref, blobScheme+session+"/") }

// NamesSession reports whether a data reference contains the session that it belongs to. Those of earlier versions do
// not.
func NamesSession(ref string) bool { return strings.Contains(strings.TrimPrefix(ref, blobScheme), "/") }

// IsPayload reports whether a data reference refers to data, by its digest.
func IsPayload(ref string, data []byte) bool {
	return strings.HasPrefix(ref, blobScheme) && ref[strings.LastIndexByte(ref, '/')+1:] == digestOf(data)
}

// Payload returns the data behind an event's data reference. An error wraps [ErrDamaged] if the data is missing or does
// not match its digest.
func (s *Store) Payload(ctx context.Context, ref string) ([]byte, error) {
	return s.payload(ctx, ref)
}

func (s *Store) payload(ctx context.Context, ref string) ([]byte, error) {
	name, ok := strings.CutPrefix(ref, blobScheme)
	if !ok {
		return nil, fmt.Errorf("%w: payload reference %q is not in %s", ErrDamaged, ref, blobScheme)
	}
	data, err := s.object(ctx, name)
	switch {
	case errors.Is(err, errLost):
		return nil, fmt.Errorf("%w: payload %s: %w", ErrDamaged, ref, err)
	case err != nil:
		return nil, fmt.Errorf("payload %s: %w", ref, err)
	}
	if !IsPayload(ref, data) {
		return nil, fmt.Errorf("%w: payload %s has the SHA-256 %s", ErrDamaged, ref, digestOf(data))
	}
	return data, nil
}

// PayloadSize returns the size in bytes of the data behind a data reference; 0 if the data was deleted, or cannot be
// read.
func (s *Store) PayloadSize(ctx context.Context, ref string) (size int64, err error) {
	err = s.inBlobs(ctx, func(ctx context.Context, bucket jetstream.ObjectStore) error {
		info, err := s.newestEntry(ctx, bucket, strings.TrimPrefix(ref, blobScheme))
		if err == nil {
			size = int64(min(info.Size, math.MaxInt64))
		}
		return err
	})
	if natsio.IsAny(err, jetstream.ErrObjectNotFound, errOverlaid) {
		return 0, nil
	}
	return size, err
}

// PutPayload stores data again under the data reference that it had. Data that does not match the reference is an
// error.
func (s *Store) PutPayload(ctx context.Context, ref string, data []byte) error {
	if !IsPayload(ref, data) {
		return fmt.Errorf("eventstore: put payload %.200s: it is for other data", ref)
	}
	if _, err := s.putBlob(ctx, strings.TrimPrefix(ref, blobScheme), data); err != nil {
		return fmt.Errorf("eventstore: put payload %s: %w", ref, err)
	}
	return nil
}

// DeletePayload deletes the data behind a data reference without a trace, if it was stored up to a sequence of the
// object store's stream; 0 deletes it in any case. It refuses a payload that is not the session's own ([OwnPayload]).
// Deleting what does not exist is no error.
func (s *Store) DeletePayload(ctx context.Context, session, ref string, upTo uint64) error {
	if !OwnPayload(session, ref) {
		return fmt.Errorf("eventstore: payload %.200q is not session %s's own", ref, session)
	}
	name := strings.TrimPrefix(ref, blobScheme)
	if err := s.deleteObject(ctx, name, upTo); err != nil {
		return fmt.Errorf("eventstore: delete payload %s: %w", ref, err)
	}
	return nil
}

// deleteObject deletes an object without a trace. It deletes the chunks first, because only the entry names them. If
// upTo is not 0, it deletes only what the stream has stored up to that sequence.
func (s *Store) deleteObject(ctx context.Context, name string, upTo uint64) error {
	return s.retry(ctx, func(ctx context.Context) error {
		stream, err := s.js.Stream(ctx, blobStream)
		if err != nil {
			return err
		}
		var bound []jetstream.StreamPurgeOpt
		if upTo != 0 {
			bound = append(bound, jetstream.WithPurgeSequence(upTo+1)) // the server purges lower sequences
		}
		info, err := putEntry(ctx, stream, name)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			err = s.missing(ctx, name)
		}
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			return nil
		}
		if err == nil && info != nil {
			err = natsio.PurgeSubject(ctx, stream, chunkSubject(info.NUID), bound...)
		}
		if err == nil {
			err = natsio.PurgeSubject(ctx, stream, entrySubject(name), bound...)
		}
		if err != nil {
			return fmt.Errorf("object %s: %w", name, err)
		}
		return nil
	})
}

// putEntry returns the entry that a client has put for an object, nil if there are other messages only. Those are above
// the entry, which a client puts in place of all that are there.
func putEntry(ctx context.Context, stream jetstream.Stream, name string) (*jetstream.ObjectInfo, error) {
	m, err := stream.GetLastMsgForSubject(ctx, entrySubject(name))
	if err == nil && entryOf(m.Data, name) == nil {
		m, err = stream.GetMsg(ctx, 1, jetstream.WithGetMsgSubject(entrySubject(name)))
	}
	if err != nil {
		return nil, err
	}
	return entryOf(m.Data, name), nil
}

// entryOf returns the entry of an object that a message's data is, nil if no client has put it.
func entryOf(data []byte, name string) *jetstream.ObjectInfo {
	info := new(jetstream.ObjectInfo)
	if json.Unmarshal(data, info) != nil || !isEntry(info, name) {
		return nil
	}
	return info
}

// heal deletes the messages that a NATS server, because a client directed its answer there, has stored over an object's
// entry or behind its chunks, if [Options.Heal] permits it. The object that was put is still stored below them. cause
// is the error of reading the object; heal returns it if there is nothing to delete.
func (s *Store) heal(ctx context.Context, name string, cause error) error {
	if !s.o.Heal || !natsio.IsAny(cause, errOverlaid, errIncomplete) {
		return cause
	}
	stream, err := s.js.Stream(ctx, blobStream)
	if err != nil {
		return err
	}
	var info *jetstream.ObjectInfo
	entry, deleted, err := s.deleteAbove(ctx, stream, entrySubject(name), func(m natsio.Stored) bool {
		info = entryOf(m.Data, name)
		return info != nil
	})
	if err != nil || entry == 0 {
		return errors.Join(cause, err)
	}
	// An object's chunks are stored before its entry.
	_, more, err := s.deleteAbove(ctx, stream, chunkSubject(info.NUID), func(m natsio.Stored) bool {
		return m.Sequence < entry
	})
	if err != nil || deleted+more == 0 {
		return errors.Join(cause, err)
	}
	s.o.Logger.Warn("deleted messages that no client has put into the object store", "object", name,
		"messages", deleted+more)
	return nil
}

// deleteAbove deletes the newest messages of a subject until keep reports true for one. It returns the sequence of that
// message, 0 if there is none, and the number of messages deleted.
func (s *Store) deleteAbove(ctx context.Context, stream jetstream.Stream, subject string,
	keep func(natsio.Stored) bool) (kept uint64, deleted int, err error) {
	for {
		m, found, err := natsio.Last(ctx, s.js, blobStream, subject)
		switch {
		case err != nil:
			return 0, deleted, fmt.Errorf("get the newest message on %s: %w", subject, err)
		case !found:
			return 0, deleted, nil
		case keep(m):
			return m.Sequence, deleted, nil
		}
		if err := stream.DeleteMsg(ctx, m.Sequence); err != nil {
			return 0, deleted, fmt.Errorf("delete message %d on %s: %w", m.Sequence, subject, err)
		}
		deleted++
	}
}
