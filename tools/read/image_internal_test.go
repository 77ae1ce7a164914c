package read

import (
	"bytes"
	"context"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/picture"
)

// Pictures are decoded one after the other: a model that reads eight of a hundred million pixels at once must not take
// gigabytes of its worker.
func TestPicturesWaitForEachOther(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, 10, 10))); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "a.png")
	if err := os.WriteFile(name, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := reader{Options: Options{MaxImageBytes: DefaultMaxImageBytes}, turns: picture.NewTurns()}
		read := func(ctx context.Context) (schemas.ToolResult, error) {
			file, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			return r.image(ctx, file, "image/png")
		}
		end, err := r.turns.Take(t.Context()) // another call decodes
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := read(ctx); done <- err }()
		synctest.Wait()
		if len(done) > 0 {
			t.Fatal("it did not wait")
		}
		cancel()
		if err := <-done; err == nil {
			t.Error("a call that was cancelled has a result")
		}
		end()
		for range 2 { // each leaves the turn to the next
			if result, err := read(t.Context()); err != nil || len(result.Content) != 2 {
				t.Errorf("%+v, %v", result, err)
			}
		}
	})
}
