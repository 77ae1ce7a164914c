package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

const blobScheme = "nats://" + schemas.BucketBlobs + "/"

// blob returns the data of an event that is kept in the object store, held against its digest.
func (c *Client) blob(ctx context.Context, ref string) (data []byte, err error) {
	name, ok := strings.CutPrefix(ref, blobScheme)
	if !ok {
		return nil, fmt.Errorf("%w: the data reference %.100q is not below %s", ErrDamaged, ref, blobScheme)
	}
	err = c.persist(ctx, func(ctx context.Context) error {
		store, err := c.js.ObjectStore(ctx, schemas.BucketBlobs)
		if err == nil {
			data, err = store.GetBytes(ctx, name)
		}
		if errors.Is(err, jetstream.ErrObjectNotFound) || errors.Is(err, jetstream.ErrDigestMismatch) {
			err = fmt.Errorf("%w: %w", ErrDamaged, err)
		}
		return c.explain(err, c.api+"STREAM.INFO.OBJ_"+schemas.BucketBlobs, "$O."+schemas.BucketBlobs+".")
	})
	if err != nil {
		return nil, fmt.Errorf("data %s: %w", ref, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != name[strings.LastIndexByte(name, '/')+1:] {
		return nil, fmt.Errorf("%w: the data of %s has another digest", ErrDamaged, ref)
	}
	return data, nil
}
