package eventstore

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
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
	// errWhole ends the scan of an object's chunks.
	errWhole = errors.New("object is complete")
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

// putBlob stores data under a name, unless a complete object is already there. put reports whether it began to.
func (s *Store) putBlob(ctx context.Context, name string, data []byte) (put bool, err error) {
	err = s.inBlobs(ctx, func(ctx context.Context, bucket jetstream.ObjectStore) error {
		err := s.checkObject(ctx, bucket, name)
		if err == nil {
			return nil
		}
		if !natsio.IsAny(err, jetstream.ErrObjectNotFound, errIncomplete, errOverlaid) {
			return fmt.Errorf("object %s: %w", name, err)
		}
		put = true
		if err = s.replaceObject(ctx, bucket, name, data); err == nil {
			err = s.checkObject(ctx, bucket, name)
		}
		if err != nil {
			return fmt.Errorf("put object %s: %w", name, err)
		}
		return nil
	})
	return put, err
}

// replaceObject puts an object in place of what is there. Messages that no client has put are deleted first: the client
// library refuses to put an object over them, or purges the chunks that they name.
func (s *Store) replaceObject(ctx context.Context, bucket jetstream.ObjectStore, name string, data []byte) error {
	if _, err := s.newestEntry(ctx, bucket, name); errors.Is(err, errOverlaid) {
		if err := s.deleteObject(ctx, name, 0); err != nil {
			return err
		}
	}
	_, err := bucket.PutBytes(ctx, name, data)
	return err
}

// newestEntry returns the newest entry of an object. The error is errOverlaid if no client has put it.
func (s *Store) newestEntry(ctx context.Context, bucket jetstream.ObjectStore, name string) (*jetstream.ObjectInfo,
	error) {
	info, err := bucket.GetInfo(ctx, name, jetstream.GetObjectInfoShowDeleted())
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound):
		return nil, s.missing(ctx, name)
	case errors.Is(err, jetstream.ErrBadObjectMeta) || err == nil && !isEntry(info, name):
		return nil, errOverlaid
	case err == nil && info.Deleted:
		return nil, jetstream.ErrObjectNotFound
	}
	return info, err
}

// missing returns the error of an object whose entry a replica does not have: [natsio.ErrBehind] if the leader has it.
// It asks by a request that readers may make.
func (s *Store) missing(ctx context.Context, name string) error {
	if replicated, err := s.replicated(ctx); err != nil {
		return err
	} else if !replicated {
		return jetstream.ErrObjectNotFound
	}
	n, err := s.countBlobs(ctx, entrySubject(name), 1)
	switch {
	case err != nil:
		return err
	case n > 0:
		return natsio.ErrBehind
	}
	return jetstream.ErrObjectNotFound
}

// isEntry reports whether an entry of an object was put by a client, and names its chunks and no others.
func isEntry(info *jetstream.ObjectInfo, name string) bool {
	link := info.Opts != nil && info.Opts.Link != nil
	return !link && info.NUID != "" && info.Name == name && natsio.Literal(chunkSubject(info.NUID))
}

// checkObject returns nil if the object and all its chunks are stored.
func (s *Store) checkObject(ctx context.Context, bucket jetstream.ObjectStore, name string) error {
	for before := ""; ; {
		info, err := s.newestEntry(ctx, bucket, name)
		if err != nil {
			return err
		}
		chunks, err := s.countBlobs(ctx, chunkSubject(info.NUID), uint64(info.Chunks))
		if err != nil || chunks == uint64(info.Chunks) {
			return err
		}
		if info.NUID == before { // if not, another process was replacing the object with the same data
			return fmt.Errorf("%w: %d chunks of %d", errIncomplete, chunks, info.Chunks)
		}
		before = info.NUID
	}
}

// countBlobs returns how many messages of a subject the leader of the object store's stream has. Another number than
// want is confirmed.
func (s *Store) countBlobs(ctx context.Context, subject string, want uint64) (uint64, error) {
	info, err := natsio.LeaderInfo(ctx, s.js, blobStream, jetstream.WithSubjectFilter(subject))
	if err == nil && info.State.Subjects[subject] != want {
		info, err = natsio.ConfirmedInfo(ctx, s.js, blobStream, jetstream.WithSubjectFilter(subject))
	}
	if err != nil {
		return 0, err
	}
	return info.State.Subjects[subject], nil
}

// object returns the bytes of an object; the caller checks their digest. The gate of ctx is asked before they are read
// ([turns.Pass]). An error wraps errLost if the object is missing or incomplete.
func (s *Store) object(ctx context.Context, name string) (data []byte, err error) {
	err = s.inBlobs(ctx, func(one context.Context, bucket jetstream.ObjectStore) error {
		err := s.checkObject(one, bucket, name)
		if err != nil {
			if err = s.heal(one, name, err); err == nil {
				err = s.checkObject(one, bucket, name)
			}
		}
		var info *jetstream.ObjectInfo
		if err == nil {
			info, err = s.newestEntry(one, bucket, name)
			if errors.Is(err, jetstream.ErrObjectNotFound) {
				err = natsio.ErrBehind // it was there a moment ago
			}
		}
		if err != nil {
			return err
		}
		if err := turns.Pass(ctx, int(min(info.Size, math.MaxInt32))); err != nil {
			return err
		}
		return s.connected(ctx, func(ctx context.Context) error { // a large object may need more than AppendTimeout
			data, err = s.readObject(ctx, info)
			return err
		})
	})
	if natsio.IsAny(err, jetstream.ErrObjectNotFound, errIncomplete, errOverlaid) {
		return nil, fmt.Errorf("%w: %w", errLost, err)
	}
	return data, err
}

// readObject reads an object's chunks by a consumer: the role objects has no direct gets of chunks. If the stream has
// as many consumers as it may have, it reads them by direct gets: any client that may read objects can create that many
// consumers (decision 136).
func (s *Store) readObject(ctx context.Context, info *jetstream.ObjectInfo) ([]byte, error) {
	data, err := natsio.Object(ctx, s.js, info)
	if !natsio.NoConsumersLeft(err) {
		return data, err
	}
	n := uint32(0)
	take := func(m natsio.Stored) error {
		data = append(data, m.Data...)
		if n++; n == info.Chunks {
			return errWhole
		}
		return nil
	}
	_, err = natsio.ScanSubject(ctx, s.js, blobStream, chunkSubject(info.NUID), 1, math.MaxUint64, take)
	switch {
	case errors.Is(err, errWhole):
		return data, nil
	case err == nil: // they were there a moment ago
		err = fmt.Errorf("%w: %d chunks of %d", natsio.ErrBehind, n, info.Chunks)
	}
	return nil, err
}
