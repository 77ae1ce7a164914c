package eventstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// blobStream is the stream of the object store.
const blobStream = "OBJ_" + schemas.BucketBlobs

// entrySubject is the subject of an object's entry, which names its chunks.
func entrySubject(name string) string {
	return "$O." + schemas.BucketBlobs + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
}

func chunkSubject(nuid string) string { return "$O." + schemas.BucketBlobs + ".C." + nuid }

var (
	// errLost is wrapped by the error of reading an object that is missing or not as it was put.
	errLost = errors.New("object lost")
	// errIncomplete is the error of an object that has an entry, but not all of its chunks. The client library sends the
	// chunks and then the entry, without waiting between them. If the bucket is full, or the process dies, the entry may
	// be stored although a chunk was refused. Reading such an object would wait for the chunk until it times out.
	errIncomplete = errors.New("object is incomplete")
	// errOverlaid is the error of an object whose newest entry no client has put.
	errOverlaid = errors.New("entry of the object is overwritten")
)

func (s *Store) blobBucket(ctx context.Context) (jetstream.ObjectStore, error) {
	return bucket(s, &s.blobs, schemas.BucketBlobs, func() (jetstream.ObjectStore, error) {
		return s.js.ObjectStore(ctx, schemas.BucketBlobs)
	})
}

// inBlobs calls f with the object store until it succeeds, as [Store.retry] does.
func (s *Store) inBlobs(ctx context.Context, f func(ctx context.Context, bucket jetstream.ObjectStore) error) error {
	return s.retry(ctx, func(ctx context.Context) error {
		bucket, err := s.blobBucket(ctx)
		if err != nil {
			return err
		}
		return f(ctx, bucket)
	})
}

// putBlob stores data under a name, unless a complete object is already there.
func (s *Store) putBlob(ctx context.Context, name string, data []byte) error {
	return s.inBlobs(ctx, func(ctx context.Context, bucket jetstream.ObjectStore) error {
		err := s.checkObject(ctx, bucket, name)
		if err == nil {
			return nil
		}
		if !natsio.IsAny(err, jetstream.ErrObjectNotFound, errIncomplete, errOverlaid) {
			return fmt.Errorf("object %s: %w", name, err)
		}
		if err = s.replaceObject(ctx, bucket, name, data); err == nil {
			err = s.checkObject(ctx, bucket, name)
		}
		if err != nil {
			return fmt.Errorf("put object %s: %w", name, err)
		}
		return nil
	})
}

// replaceObject puts an object in place of what is there. Messages that no client has put are deleted first: the client
// library refuses to put an object over them, or purges the chunks that they name.
func (s *Store) replaceObject(ctx context.Context, bucket jetstream.ObjectStore, name string, data []byte) error {
	if _, err := newestEntry(ctx, bucket, name); errors.Is(err, errOverlaid) {
		if err := s.deleteObject(ctx, name, 0); err != nil {
			return err
		}
	}
	_, err := bucket.PutBytes(ctx, name, data)
	return err
}

// newestEntry returns the newest entry of an object. The error is errOverlaid if no client has put it.
func newestEntry(ctx context.Context, bucket jetstream.ObjectStore, name string) (*jetstream.ObjectInfo, error) {
	info, err := bucket.GetInfo(ctx, name)
	if errors.Is(err, jetstream.ErrBadObjectMeta) || err == nil && !isEntry(info, name) {
		return nil, errOverlaid
	}
	return info, err
}

// isEntry reports whether an entry of an object was put by a client, and names its chunks and no others.
func isEntry(info *jetstream.ObjectInfo, name string) bool {
	return info.NUID != "" && info.Name == name && natsio.Literal(chunkSubject(info.NUID))
}

// checkObject returns nil if the object and all its chunks are stored.
func (s *Store) checkObject(ctx context.Context, bucket jetstream.ObjectStore, name string) error {
	for before := ""; ; {
		info, err := newestEntry(ctx, bucket, name)
		if err != nil {
			return err
		}
		chunks, err := s.chunks(ctx, info.NUID)
		if err != nil || chunks == uint64(info.Chunks) {
			return err
		}
		if info.NUID == before { // if not, another process was replacing the object with the same data
			return fmt.Errorf("%w: %d chunks of %d", errIncomplete, chunks, info.Chunks)
		}
		before = info.NUID
	}
}

// chunks returns how many chunks of an object are stored.
func (s *Store) chunks(ctx context.Context, nuid string) (uint64, error) {
	stream, err := s.js.Stream(ctx, blobStream)
	if err != nil {
		return 0, err
	}
	subject := chunkSubject(nuid)
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

// object returns the bytes of an object; the caller checks their digest. An error wraps errLost if it is missing or
// incomplete.
func (s *Store) object(ctx context.Context, name string) (data []byte, err error) {
	err = s.inBlobs(ctx, func(ctx context.Context, bucket jetstream.ObjectStore) error {
		err := s.checkObject(ctx, bucket, name)
		if err != nil {
			if err = s.heal(ctx, name, err); err == nil {
				err = s.checkObject(ctx, bucket, name)
			}
		}
		if err == nil {
			data, err = bucket.GetBytes(ctx, name)
		}
		// The client library may end an object early when its time is up, and then finds that the digest is another.
		if natsio.NoConsumersLeft(err) || errors.Is(err, jetstream.ErrDigestMismatch) {
			data, err = s.objectByChunk(ctx, bucket, name)
		}
		return err
	})
	if natsio.IsAny(err, jetstream.ErrObjectNotFound, errIncomplete, errOverlaid) {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	return data, err
}

// objectByChunk reads an object without the consumer that the client library would create. Any client that may read
// objects can create as many consumers as the stream may have (decision 136).
func (s *Store) objectByChunk(ctx context.Context, bucket jetstream.ObjectStore, name string) ([]byte, error) {
	info, err := bucket.GetInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	stream, err := s.js.Stream(ctx, blobStream)
	if err != nil {
		return nil, err
	}
	var data []byte
	next := uint64(1)
	for n := range info.Chunks {
		m, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject(chunkSubject(info.NUID)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil, fmt.Errorf("%w: %d chunks of %d", errIncomplete, n, info.Chunks)
		}
		if err != nil {
			return nil, err
		}
		data, next = append(data, m.Data...), m.Sequence+1
	}
	return data, nil
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
	entry, deleted, err := s.deleteAbove(ctx, stream, entrySubject(name), func(m *jetstream.RawStreamMsg) bool {
		info = entryOf(m, name)
		return info != nil
	})
	if err != nil || entry == 0 {
		return errors.Join(cause, err)
	}
	// An object's chunks are stored before its entry.
	_, more, err := s.deleteAbove(ctx, stream, chunkSubject(info.NUID), func(m *jetstream.RawStreamMsg) bool {
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
	keep func(*jetstream.RawStreamMsg) bool) (kept uint64, deleted int, err error) {
	for {
		m, err := stream.GetLastMsgForSubject(ctx, subject)
		switch {
		case errors.Is(err, jetstream.ErrMsgNotFound):
			return 0, deleted, nil
		case err != nil:
			return 0, deleted, fmt.Errorf("get the newest message on %s: %w", subject, err)
		case keep(m):
			return m.Sequence, deleted, nil
		}
		if err := stream.DeleteMsg(ctx, m.Sequence); err != nil {
			return 0, deleted, fmt.Errorf("delete message %d on %s: %w", m.Sequence, subject, err)
		}
		deleted++
	}
}
