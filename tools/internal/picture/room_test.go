package picture_test

import (
	"bytes"
	"image"
	"image/png"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/tools/internal/picture"
	"github.com/loopbus/loopbus/tools/internal/room"
)

// A large picture is decoded when there is room for it, which it releases; a small one does not wait.
func TestLargePicturesWaitForRoom(t *testing.T) { // not parallel: it takes the room of all
	encoded := func(side int) []byte {
		var b bytes.Buffer
		if err := png.Encode(&b, image.NewGray(image.Rect(0, 0, side, side))); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	small, large := encoded(100), encoded(2100)
	synctest.Test(t, func(t *testing.T) {
		fit := func(data []byte) bool {
			_, ok := picture.Fit(t.Context(), data, "image/png", picture.MaxBase64)
			return ok
		}
		leave, err := room.Pictures.Take(t.Context(), room.MaxPicture)
		if err != nil {
			t.Fatal(err)
		}
		if !fit(small) {
			t.Error("a small picture")
		}
		done := make(chan bool, 1)
		go func() { done <- fit(large) }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("a large picture does not wait")
		}
		leave()
		if !<-done {
			t.Error("a large picture")
		}
		if leave, err = room.Pictures.Take(t.Context(), room.MaxPicture); err != nil {
			t.Fatal(err)
		}
		leave()
	})
}
