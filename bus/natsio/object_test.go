package natsio_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"golang.org/x/sync/errgroup"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/natsio"
)

// Objects are read whole, whatever their number of chunks, and no consumer stays behind.
func TestObject(t *testing.T) {
	t.Parallel()
	ctx := bustest.Deadline(t)
	js := bustest.Connect(t, bustest.Server(t)).JetStream()
	bucket, err := js.CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	const chunk = 100
	put := func(size int) (*jetstream.ObjectInfo, []byte) {
		t.Helper()
		data := make([]byte, size)
		for i := range data {
			data[i] = byte(rand.Uint32())
		}
		info, err := bucket.Put(ctx, jetstream.ObjectMeta{Name: "o",
			Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunk}}, bytes.NewReader(data))
		if err != nil {
			t.Fatal(err)
		}
		return info, data
	}
	for _, size := range []int{0, 1, chunk, chunk + 1, 64 * chunk, 64*chunk + 1, 200 * chunk} {
		info, want := put(size)
		if got, err := natsio.Object(ctx, js, info); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%d bytes: got %d, %v", size, len(got), err)
		}
	}
	behind, _ := put(3 * chunk)
	behind.Chunks++
	if _, err := natsio.Object(ctx, js, behind); !errors.Is(err, natsio.ErrBehind) || !natsio.Passing(err) {
		t.Errorf("a chunk is missing: %v", err)
	}
	for _, nuid := range []string{"", "*", ">", "a.>", "a.\x7f"} {
		forged := &jetstream.ObjectInfo{ObjectMeta: jetstream.ObjectMeta{Name: "o"}, Bucket: "b", NUID: nuid, Chunks: 1}
		if _, err := natsio.Object(ctx, js, forged); !errors.Is(err, jetstream.ErrBadObjectMeta) {
			t.Errorf("chunks %q: %v", nuid, err)
		}
	}
	stream, err := js.Stream(ctx, "OBJ_b")
	if err != nil {
		t.Fatal(err)
	}
	bustest.Eventually(t, "no consumer is left", func() bool {
		info, err := stream.Info(ctx)
		return err == nil && info.State.Consumers == 0
	})
}

// A server ends a connection for which more than 64 MiB wait. What many readers ask for together is less.
func TestManyLargeObjectsAtOnce(t *testing.T) {
	t.Parallel()
	const readers, size = 16, 12 << 20
	ctx := bustest.Deadline(t)
	conn := bustest.Connect(t, bustest.Server(t))
	bucket, err := conn.JetStream().CreateObjectStore(ctx, jetstream.ObjectStoreConfig{Bucket: "b"})
	if err != nil {
		t.Fatal(err)
	}
	info, err := bucket.Put(ctx, jetstream.ObjectMeta{Name: "o"}, bytes.NewReader(make([]byte, size)))
	if err != nil {
		t.Fatal(err)
	}
	lost := conn.NATS().StatusChanged(nats.RECONNECTING, nats.DISCONNECTED)
	var g errgroup.Group
	for range readers {
		g.Go(func() error {
			got, err := natsio.Object(ctx, conn.JetStream(), info)
			if err == nil && len(got) != size {
				err = fmt.Errorf("%d bytes of %d", len(got), size)
			}
			return err
		})
	}
	if err := g.Wait(); err != nil {
		t.Error(err)
	}
	if len(lost) > 0 {
		t.Errorf("the connection was lost: %v", <-lost)
	}
}
