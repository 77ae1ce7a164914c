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
		r := reader{Options: Options{MaxImageBytes: DefaultMaxImageBytes}, picture: make(chan struct{}, 1)}
		read := func(ctx context.Context) (schemas.ToolResult, error) {
			file, err := os.Open(name)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			return r.image(ctx, file, "image/png")
		}
		r.picture <- struct{}{} // another call decodes
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
		<-r.picture
		if result, err := read(t.Context()); err != nil || len(result.Content) != 2 || len(r.picture) != 0 {
			t.Errorf("%+v, %v, %d decode", result, err, len(r.picture))
		}
	})
}
