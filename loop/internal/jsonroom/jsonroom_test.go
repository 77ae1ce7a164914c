package jsonroom_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/loopbus/loopbus/loop/internal/jsonroom"
)

// Large texts wait for each other, others neither for them nor for anything. Replies and requests have rooms of their
// own: a request whose reply is stored must not wait for itself. The tests are not parallel: the rooms are those of the
// process.
func TestWait(t *testing.T) {
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

// Replies are in memory while they wait, so only some may; requests are not. One reply may always wait.
func TestWaitersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = 128 << 20
		for room, want := range map[*jsonroom.Room]error{
			jsonroom.Replies: jsonroom.ErrFull, jsonroom.Requests: context.Canceled,
		} {
			release, err := room.Wait(t.Context(), 2*all)
			if err != nil {
				t.Fatal(err)
			}
			gone, cancel := context.WithCancel(t.Context())
			go func() {
				if _, err := room.Wait(gone, 2*all); !errors.Is(err, context.Canceled) {
					t.Errorf("the first that waits: %v", err)
				}
			}()
			synctest.Wait()
			ended, end := context.WithCancel(t.Context())
			end()
			if _, err := room.Wait(ended, 2<<20); !errors.Is(err, want) {
				t.Errorf("the second: %v, want %v", err, want)
			}
			cancel()
			synctest.Wait()
			if _, err := room.Wait(ended, 2<<20); !errors.Is(err, context.Canceled) {
				t.Errorf("once the first is gone: %v", err)
			}
			release()
		}
	})
}
