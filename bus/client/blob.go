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

// maxInline is how long the data of a command may be to travel in the command itself.
const maxInline = 400 << 10

// upload keeps the data of an input as an object, under its digest, and returns the reference. One that is there is not
// sent again.
func (c *Client) upload(ctx context.Context, data []byte) (ref string, err error) {
	if len(data) > schemas.MaxInputBytes {
		return "", fmt.Errorf("the input has %d bytes, more than %d", len(data), schemas.MaxInputBytes)
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:])
	err = c.persist(ctx, func(ctx context.Context) error {
		store, err := c.js.ObjectStore(ctx, schemas.BucketInputs)
		if err == nil {
			_, err = store.GetInfo(ctx, name)
		}
		if errors.Is(err, jetstream.ErrObjectNotFound) {
			_, err = store.PutBytes(ctx, name, data)
		}
		return c.explain(err, c.api+"STREAM.INFO.OBJ_"+schemas.BucketInputs, c.api+"DIRECT.GET.OBJ_"+schemas.BucketInputs,
			"$O."+schemas.BucketInputs+".")
	})
	return schemas.InputScheme + name, err
}

// blob returns the data of an event that is kept in the object store, checked against its digest.
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
