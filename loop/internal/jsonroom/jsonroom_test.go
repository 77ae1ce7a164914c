package jsonroom_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/internal/jsonroom"
)

// Large texts wait for each other, others neither for them nor for anything. Replies and requests have rooms of their
// own: a request whose reply is stored must not wait for itself.
func TestWait(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for _, room := range []*jsonroom.Room{jsonroom.Replies, jsonroom.Requests} {
			release, err := room.Wait(t.Context(), 64<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer release()
			for bytes, want := range map[int]error{2 << 20: context.Canceled, 1 << 20: nil, 10: nil} {
				leave, err := room.Wait(gone, bytes)
				if !errors.Is(err, want) {
					t.Errorf("%d bytes: %v, want %v", bytes, err, want)
				}
				if err == nil {
					leave()
				}
			}
			release()
			release()
			again, err := room.Wait(gone, 64<<20)
			if err != nil {
				t.Fatal(err)
			}
			defer again()
			if _, err := room.Wait(gone, 64<<20); err == nil {
				t.Error("two have the whole room")
			}
		}
	})
}
