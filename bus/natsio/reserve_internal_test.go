package natsio

import (
	"context"
	"fmt"
	"iter"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// slowly yields chunks, one after each pause.
func slowly(pause time.Duration) func(context.Context, int) iter.Seq2[*nats.Msg, error] {
	sent := 0
	return func(_ context.Context, n int) iter.Seq2[*nats.Msg, error] {
		return func(yield func(*nats.Msg, error) bool) {
			for range n {
				time.Sleep(pause)
				sent++
				reply := fmt.Sprintf("$JS.ACK.S.C.1.1.%d.1.0", sent)
				if !yield(&nats.Msg{Sub: new(nats.Subscription), Reply: reply, Data: []byte("x")}, nil) {
					return
				}
			}
		}
	}
}

// A reader may wait for its turn, and an object may take, as long as need be, if only the server is not silent. Readers
// of another connection do not wait.
func TestALargeObjectTakesItsTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		nc := new(nats.Conn)
		release, err := Reserve(t.Context(), nc, maxRequested)
		if err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(time.Hour, release)
		other, err := Reserve(t.Context(), new(nats.Conn), maxRequested)
		if err != nil {
			t.Fatal(err)
		}
		other()
		begun, r := time.Now(), objectReader{nc: nc, next: slowly(objectWait / 2)}
		err = r.fetch(t.Context(), objectBatch)
		if took := time.Since(begun); err != nil || r.chunks != objectBatch || took < time.Hour+objectBatch*objectWait/2 {
			t.Errorf("%d chunks after %s: %v", r.chunks, took, err)
		}
	})
}
