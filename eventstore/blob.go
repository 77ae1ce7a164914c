package eventstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

const blobScheme = "nats://" + schemas.BucketBlobs + "/"

// blobRef is the value of ce-dataref for a payload with this SHA-256.
func blobRef(name string) string { return blobScheme + name }

func (s *Store) blobBucket(ctx context.Context) (jetstream.ObjectStore, error) {
	s.bucketsMu.Lock()
	defer s.bucketsMu.Unlock()
	if s.blobs != nil {
		return s.blobs, nil
	}
	b, err := s.js.ObjectStore(ctx, schemas.BucketBlobs)
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", schemas.BucketBlobs, err)
	}
	s.blobs = b
	return b, nil
}

// putBlob stores data under a name, unless it is there already.
func (s *Store) putBlob(ctx context.Context, name string, data []byte) error {
	bucket, err := s.blobBucket(ctx)
	if err != nil {
		return err
	}
	switch _, err := bucket.GetInfo(ctx, name); {
	case err == nil:
		return nil
	case !errors.Is(err, jetstream.ErrObjectNotFound):
		return fmt.Errorf("object %s: %w", name, err)
	}
	if _, err := bucket.PutBytes(ctx, name, data); err != nil {
		return fmt.Errorf("put object %s: %w", name, err)
	}
	return nil
}

// fetchBlob returns the payload behind a ce-dataref, checked against its digest.
func (s *Store) fetchBlob(ctx context.Context, ref string) ([]byte, error) {
	name, ok := strings.CutPrefix(ref, blobScheme)
	if !ok {
		return nil, fmt.Errorf("%w: payload reference %q is not in %s", ErrDamaged, ref, blobScheme)
	}
	var data []byte
	err := s.retry(ctx, func(ctx context.Context) error {
		bucket, err := s.blobBucket(ctx)
		if err != nil {
			return err
		}
		data, err = bucket.GetBytes(ctx, name)
		return err
	})
	switch {
	case errors.Is(err, jetstream.ErrObjectNotFound), errors.Is(err, jetstream.ErrDigestMismatch):
		return nil, fmt.Errorf("%w: payload %s: %w", ErrDamaged, ref, err)
	case err != nil:
		return nil, fmt.Errorf("payload %s: %w", ref, err)
	}
	if got := blobName(data); got != name {
		return nil, fmt.Errorf("%w: payload %s has the SHA-256 %s", ErrDamaged, ref, got)
	}
	return data, nil
}
