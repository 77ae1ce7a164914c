package eventstore

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

const blobScheme = "nats://" + schemas.BucketBlobs + "/"

// blob is a payload that is kept in the object store. Its name is <session>/<writer>/<digest>: no other session has it,
// and no other writer of this one, so that it may be deleted with the session, and by a writer whose commit was
// refused. Logs of earlier versions have payloads that are named by their digest alone.
type blob struct {
	name string
	data []byte
}

// blobRef is the value of ce-dataref for the object with this name.
func blobRef(name string) string { return blobScheme + name }

// digestOf is the SHA-256 of a payload in hex, the last part of its object's name.
func digestOf(payload []byte) string {
	sum := sha256.Sum256(payload)
	return hex.EncodeToString(sum[:])
}

// SharedPayload reports whether an event's data reference is one of earlier versions, which named payloads by their
// digest alone: other sessions may have the same.
func SharedPayload(ref string) bool {
	return !strings.Contains(strings.TrimPrefix(ref, blobScheme), "/")
}

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

// putBlob stores data under a name, unless it is there already.
func (s *Store) putBlob(ctx context.Context, name string, data []byte) error {
	return s.inBlobs(ctx, func(ctx context.Context, bucket jetstream.ObjectStore) error {
		switch err := s.checkObject(ctx, bucket, name); {
		case err == nil:
			return nil
		case !errors.Is(err, jetstream.ErrObjectNotFound) && !errors.Is(err, errIncomplete) &&
			!errors.Is(err, errOverlaid):
			return fmt.Errorf("object %s: %w", name, err)
		}
		_, err := bucket.PutBytes(ctx, name, data)
		if err == nil {
			err = s.checkObject(ctx, bucket, name)
		}
		if err != nil {
			return fmt.Errorf("put object %s: %w", name, err)
		}
		return nil
	})
}

// errIncomplete says of an object that not all of its chunks are stored. Putting one sends the chunks and then the
// entry that says it is there, without waiting between them: where the bucket is full, or the process dies, the entry
// may be stored although a chunk was refused. Reading such an object would wait for the chunk until it times out.
var errIncomplete = errors.New("object is not wholly stored")

// checkObject returns nil if the object and all its chunks are stored.
func (s *Store) checkObject(ctx context.Context, bucket jetstream.ObjectStore, name string) error {
	for put := ""; ; {
		info, err := bucket.GetInfo(ctx, name)
		if err != nil {
			return err
		}
		if info.NUID == "" {
			return errOverlaid
		}
		chunks, err := s.chunks(ctx, info.NUID)
		if err != nil || chunks == uint64(info.Chunks) {
			return err
		}
		if info.NUID == put { // and not just being replaced by another process with the same
			return fmt.Errorf("%w: %d chunks of %d", errIncomplete, chunks, info.Chunks)
		}
		put = info.NUID
	}
}

// chunks is how many chunks of an object are stored.
func (s *Store) chunks(ctx context.Context, nuid string) (uint64, error) {
	stream, err := s.js.Stream(ctx, "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		return 0, err
	}
	subject := "$O." + schemas.BucketBlobs + ".C." + nuid
	info, err := stream.Info(ctx, jetstream.WithSubjectFilter(subject))
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

// object returns the bytes of an object. An error wraps errLost if it is not there, or not as it was put.
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
		if natsio.NoConsumersLeft(err) {
			data, err = s.objectByChunk(ctx, bucket, name)
		}
		return err
	})
	for _, lost := range []error{jetstream.ErrObjectNotFound, jetstream.ErrDigestMismatch, errIncomplete, errOverlaid} {
		if errors.Is(err, lost) {
			return nil, fmt.Errorf("%w: %w", errLost, err)
		}
	}
	return data, err
}

// objectByChunk reads an object without the consumer that the library makes for it: whoever may read objects can make
// as many as there may be (decision 136). Its caller checks the digest.
func (s *Store) objectByChunk(ctx context.Context, bucket jetstream.ObjectStore, name string) ([]byte, error) {
	info, err := bucket.GetInfo(ctx, name)
	if err != nil {
		return nil, err
	}
	stream, err := s.js.Stream(ctx, "OBJ_"+schemas.BucketBlobs)
	if err != nil {
		return nil, err
	}
	var data []byte
	next := uint64(1)
	for n := range info.Chunks {
		m, err := stream.GetMsg(ctx, next, jetstream.WithGetMsgSubject("$O."+schemas.BucketBlobs+".C."+info.NUID))
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

var errLost = errors.New("object lost")

// Payload returns the data behind an event's data reference, checked against its digest. An error wraps [ErrDamaged]
// if it is not there, or not as it was put.
func (s *Store) Payload(ctx context.Context, ref string) ([]byte, error) {
	return s.fetchBlob(ctx, ref)
}

// PayloadSize is how large the data behind a data reference is, in bytes; 0 where it is deleted.
func (s *Store) PayloadSize(ctx context.Context, ref string) (size int64, err error) {
	err = s.inBlobs(ctx, func(ctx context.Context, bucket jetstream.ObjectStore) error {
		info, err := bucket.GetInfo(ctx, strings.TrimPrefix(ref, blobScheme))
		if err == nil {
			size = int64(min(info.Size, math.MaxInt64))
		}
		return err
	})
	if errors.Is(err, jetstream.ErrObjectNotFound) {
		return 0, nil
	}
	return size, err
}

// IsPayload reports whether data is what a data reference is about, by its digest.
func IsPayload(ref string, data []byte) bool {
	return strings.HasPrefix(ref, blobScheme) && ref[strings.LastIndexByte(ref, '/')+1:] == digestOf(data)
}

// PutPayload brings back data under a data reference that it had.
func (s *Store) PutPayload(ctx context.Context, ref string, data []byte) error {
	if !IsPayload(ref, data) {
		return fmt.Errorf("eventstore: put payload %.200s: it is for other data", ref)
	}
	if err := s.putBlob(ctx, strings.TrimPrefix(ref, blobScheme), data); err != nil {
		return fmt.Errorf("eventstore: put payload %s: %w", ref, err)
	}
	return nil
}

// DeletePayload deletes the data behind a data reference that is not shared, without a trace. It is no error if it is
// deleted.
func (s *Store) DeletePayload(ctx context.Context, ref string) error {
	name, ok := strings.CutPrefix(ref, blobScheme)
	if !ok || SharedPayload(ref) {
		return fmt.Errorf("eventstore: payload %.200q is not a session's own", ref)
	}
	if err := s.deleteObject(ctx, name); err != nil {
		return fmt.Errorf("eventstore: delete payload %s: %w", ref, err)
	}
	return nil
}

// deleteObject takes an object out of the store, its chunks first: while its entry is there, so are its chunks' names.
func (s *Store) deleteObject(ctx context.Context, name string) error {
	return s.inBlobs(ctx, func(ctx context.Context, bucket jetstream.ObjectStore) error {
		info, err := bucket.GetInfo(ctx, name, jetstream.GetObjectInfoShowDeleted())
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		stream, err := s.js.Stream(ctx, "OBJ_"+schemas.BucketBlobs)
		if err != nil {
			return err
		}
		entry := "$O." + schemas.BucketBlobs + ".M." + base64.URLEncoding.EncodeToString([]byte(name))
		for _, subject := range []string{"$O." + schemas.BucketBlobs + ".C." + info.NUID, entry} {
			if err := stream.Purge(ctx, jetstream.WithPurgeSubject(subject)); err != nil {
				return err
			}
		}
		return nil
	})
}

// fetchBlob returns the payload behind a ce-dataref, checked against its digest.
func (s *Store) fetchBlob(ctx context.Context, ref string) ([]byte, error) {
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
