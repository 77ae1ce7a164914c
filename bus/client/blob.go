package client

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

const blobScheme = "nats://" + schemas.BucketBlobs + "/"

// maxInline is how long the data of a command may be to travel in the command itself.
const maxInline = 400 << 10

// pieceBytes is how much of an input is in a message of its own.
const pieceBytes = 128 << 10

// upload keeps the data of an input as an object, and returns the reference. Who uploads may not read what is there,
// and could learn what others have uploaded if he might: so the object is written message by message, under a name
// that nobody else can guess.
func (c *Client) upload(ctx context.Context, data []byte) (ref string, err error) {
	if len(data) > schemas.MaxInputBytes {
		return "", fmt.Errorf("the input has %d bytes, more than %d", len(data), schemas.MaxInputBytes)
	}
	sum := sha256.Sum256(data)
	name := hex.EncodeToString(sum[:]) + "-" + rand.Text()
	info := jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{Name: name, Opts: &jetstream.ObjectMetaOptions{ChunkSize: pieceBytes}},
		Bucket:     schemas.BucketInputs, NUID: rand.Text(), Size: uint64(len(data)),
		Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(sum[:]), ModTime: time.Now().UTC(),
	}
	for piece := range slices.Chunk(data, pieceBytes) {
		if err := c.putInput(ctx, "C."+info.NUID, fmt.Sprint(info.NUID, "/", info.Chunks), piece); err != nil {
			return "", err
		}
		info.Chunks++
	}
	meta, err := json.Marshal(info)
	if err == nil {
		err = c.putInput(ctx, "M."+base64.URLEncoding.EncodeToString([]byte(name)), info.NUID, meta)
	}
	return schemas.InputScheme + name, err
}

// putInput stores a message of an object. The id, which nobody can guess, keeps it from being stored twice.
func (c *Client) putInput(ctx context.Context, subject, id string, data []byte) error {
	const prefix = "$O." + schemas.BucketInputs + "."
	return c.persist(ctx, func(ctx context.Context) error {
		_, err := c.js.Publish(ctx, prefix+subject, data, jetstream.WithMsgID(id))
		return c.explain(err, prefix)
	})
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
