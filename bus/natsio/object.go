package natsio

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// ErrBehind is wrapped by the error of reading from a replica that does not have yet what the leader has. It passes.
var ErrBehind = errors.New("the replica that answers is behind")

const (
	objectIdle  = 30 * time.Second // for which a server keeps the consumer of a reader that was lost
	objectWait  = 5 * time.Second  // limit for a server to send something
	objectBatch = 64               // chunks of one request
	objectBytes = 4 << 20          // of one request
	objectAhead = 16 << 20         // allocated before the first chunk has come
)

// Object returns the data of an object, of which a caller has read the entry. It checks the number of chunks, not the
// digest. The error wraps [ErrBehind] if the replica that answers has fewer chunks than the entry names, and is
// [jetstream.ErrBadObjectMeta] for an entry that names no chunks of its own.
//
// ctx need not have a limit of time: each answer of the server has one, which begins with the request. With a limit for
// all of it, a large object could never be read over a slow connection, or while others have their turn ([Reserve]).
//
// The object store of nats.go reads with its older API: an object whose reading takes too long ends early and without
// an error, and a goroutine may stay behind.
func Object(ctx context.Context, js jetstream.JetStream, info *jetstream.ObjectInfo) (data []byte, err error) {
	stream, subject := "OBJ_"+info.Bucket, "$O."+info.Bucket+".C."+info.NUID
	if info.NUID == "" || !Literal(subject) || info.Opts != nil && info.Opts.Link != nil {
		return nil, jetstream.ErrBadObjectMeta
	}
	if info.Chunks == 0 {
		return nil, nil
	}
	create, cancel := context.WithTimeout(ctx, objectWait)
	made, err := js.CreateConsumer(create, stream, jetstream.ConsumerConfig{FilterSubject: subject,
		AckPolicy: jetstream.AckNonePolicy, MemoryStorage: true, Replicas: 1, InactiveThreshold: objectIdle})
	cancel()
	if err != nil {
		return nil, err
	}
	consumer := made.CachedInfo()
	defer func() { // without a reply subject, so that no goroutine waits for the answer
		_ = js.Conn().Publish(APIPrefix(js)+"CONSUMER.DELETE."+stream+"."+consumer.Name, nil)
	}()
	all := uint64(info.Chunks)
	if n := consumer.NumPending; n < all {
		return nil, fmt.Errorf("object %.200q: %d chunks of %d: %w", info.Name, n, all, ErrBehind)
	}
	r := objectReader{nc: js.Conn(), data: make([]byte, 0, min(info.Size, objectAhead))}
	r.next = func(ctx context.Context, n int) iter.Seq2[*nats.Msg, error] {
		return Fetch(ctx, js, consumer, n, objectBytes)
	}
	for r.chunks < all {
		if err := r.fetch(ctx, min(all-r.chunks, objectBatch)); err != nil {
			return nil, fmt.Errorf("object %.200q: %w", info.Name, err)
		}
	}
	return r.data, nil
}

type objectReader struct {
	nc     *nats.Conn
	next   func(ctx context.Context, n int) iter.Seq2[*nats.Msg, error] // yields up to n chunks
	data   []byte
	chunks uint64
}

// fetch reads up to n chunks, at least one. The server must not be silent for objectWait.
func (r *objectReader) fetch(ctx context.Context, n uint64) error {
	release, err := Reserve(ctx, r.nc, objectBytes)
	if err != nil {
		return err
	}
	defer release()
	one, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(objectWait, cancel)
	defer silent.Stop()
	before := r.chunks
	for m, failed := range r.next(one, int(n)) {
		if err = failed; err != nil {
			break
		}
		silent.Reset(objectWait)
		at, err := m.Metadata()
		switch {
		case err != nil:
			return err
		case at.Sequence.Consumer != r.chunks+1:
			return fmt.Errorf("chunk %d is missing: %w", r.chunks+1, ErrBehind)
		}
		r.chunks++
		r.data = append(r.data, m.Data...)
	}
	if r.chunks == before {
		return errors.Join(context.DeadlineExceeded, err)
	}
	return nil
}
