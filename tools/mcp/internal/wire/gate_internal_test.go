package wire

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
)

// Of large messages, so many are read at once; small ones are read all the time.
func TestLargeMessagesTakeTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const small, most = 1000, 2
		large := strings.Repeat("x", 10*small)
		gate := NewGate(small, most)
		ctx, cancel := context.WithCancel(t.Context())
		read := make(chan error, 10)
		begin := func(framing Framing, text string) io.ReadCloser {
			body := gate.Gated(ctx, io.NopCloser(strings.NewReader(text)), framing, 1<<20)
			go func() {
				buffer := make([]byte, 100)
				for {
					if _, err := body.Read(buffer); err != nil {
						read <- err
						return
					}
				}
			}()
			synctest.Wait()
			return body
		}
		want := func(what string, ended int) {
			t.Helper()
			synctest.Wait()
			if len(read) != ended {
				t.Errorf("%s: %d bodies have ended, want %d", what, len(read), ended)
			}
			for len(read) > 0 {
				if err := <-read; !errors.Is(err, io.EOF) {
					t.Errorf("%s: %v", what, err)
				}
			}
		}
		first, second := begin(Whole, large), begin(Whole, large)
		want("two large ones", 2)
		third := begin(Whole, large)
		want("a third one waits until one of them is closed", 0)
		_ = begin(Whole, large[:small]).Close()
		want("a small one", 1)
		_ = first.Close()
		want("the third one", 1)
		stream := begin(Events, "data: "+large+"\n\n"+strings.Repeat("data: x\n\n", 5000))
		want("a stream waits", 0)
		_ = second.Close()
		want("the stream", 1)
		want("a large one beside the stream, whose large event was taken", 0)
		fourth := begin(Whole, large)
		want("the fourth one", 1)
		fifth := begin(Whole, large)
		want("the fifth one waits", 0)
		cancel()
		synctest.Wait()
		if err := <-read; !errors.Is(err, context.Canceled) {
			t.Errorf("the fifth one: %v", err)
		}
		for _, body := range []io.Closer{third, stream, fourth, fifth, first} {
			_ = body.Close()
		}
		if len(gate.large) != 0 {
			t.Errorf("%d messages are left in the gate", len(gate.large))
		}
	})
}
