package bridge_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// text returns a JSON text of n bytes.
func text(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }

func take(t *testing.T, h *bridge.Hold, n int) error {
	t.Helper()
	_, err := h.ReadAll(bytes.NewReader(text(n)))
	if err != nil && !errors.Is(err, bridge.ErrFull) {
		t.Fatal(err)
	}
	return err
}

// All requests together have so many bytes, and each 16 KiB besides.
func TestBudget(t *testing.T) {
	t.Parallel()
	const small, half, all = 16 << 10, 512 << 10, 1 << 20
	b := bridge.NewBudget(all, 100)
	first, second, third := b.Hold(""), b.Hold(""), b.Hold("")
	if err := errors.Join(take(t, first, half), take(t, second, half+small)); err != nil {
		t.Fatal(err)
	}
	if take(t, third, 3*small) == nil {
		t.Error("a third large request has room")
	}
	third.Release()
	if take(t, third, small) != nil {
		t.Error("a small request has no room")
	}
	part := first.Part(half - small)
	first.Release()
	first.Release()
	large := b.Hold("")
	if take(t, large, half) == nil {
		t.Error("a part of a request that was released has no room of its own")
	}
	large.Release()
	part.Release()
	if take(t, large, half) != nil {
		t.Error("a request that was released keeps its room")
	}
	large.Release()
	second.Release()
	third.Release()
	if take(t, first, all) != nil {
		t.Error("there is room left over")
	}
}

// A caller leaves as much to others as its requests have.
func TestCallersOfABudget(t *testing.T) {
	t.Parallel()
	b := bridge.NewBudget(1<<20, 100)
	first, second := b.Hold("first"), b.Hold("second")
	if take(t, first, 640<<10) == nil {
		t.Error("a caller has more than it leaves to others")
	}
	if take(t, second, 128<<10) != nil {
		t.Error("another caller has nothing")
	}
}

// A list of nothing takes a hundred times its bytes, once it is decoded.
func TestDecodedValuesCount(t *testing.T) {
	t.Parallel()
	const most = 1 << 10
	b := bridge.NewBudget(1<<20, most)
	list := []byte("[" + strings.Repeat("0,", most-1) + "0]")
	var holds []*bridge.Hold
	var err error
	for err == nil && len(holds) < 10 {
		holds = append(holds, b.Hold(""))
		err = holds[len(holds)-1].Decoded("a list", list)
	}
	if !errors.Is(err, bridge.ErrFull) || len(holds) != 5 {
		t.Errorf("request %d of 256 KiB each: %v", len(holds), err)
	}
	for _, h := range holds {
		h.Release()
	}
	err = b.Hold("").Decoded("a list", append(list[:len(list)-1], ",0]"...))
	if schemas.FailureCodeOf(err) != schemas.FailureTooLarge {
		t.Errorf("one value too many: %v", err)
	}
	for want, err := range map[int]error{http.StatusServiceUnavailable: bridge.ErrFull,
		http.StatusRequestEntityTooLarge: err, http.StatusNotFound: fmt.Errorf("follow: %w", client.ErrDeleted)} {
		w := httptest.NewRecorder()
		bridge.Refuse(w, err)
		if retry := w.Header().Get("Retry-After"); w.Code != want || (retry != "") != errors.Is(err, bridge.ErrFull) {
			t.Errorf("%v is refused with %d, to retry after %q", err, w.Code, retry)
		}
	}
}

// What a loop loads is held besides what its caller holds; who only shows it holds it instead.
func TestPayloadsAreHeld(t *testing.T) {
	t.Parallel()
	views := bridge.NewViews(16 << 20) // of which one has half
	follower, viewer := views.Hold("s1"), views.Hold("s1")
	loaded, err := follower.Load(1 << 20)
	if err == nil {
		err = follower.Set(2 << 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := viewer.Show(1 << 20); !errors.Is(err, bridge.ErrFull) {
		t.Errorf("a viewer beside 6 MiB: %v", err)
	}
	loaded()
	shown, err := viewer.Show(1 << 20)
	if err != nil {
		t.Fatalf("a viewer beside 2 MiB: %v", err)
	}
	if err := errors.Join(viewer.Set(2<<20), follower.Set(4<<20)); err != nil {
		t.Errorf("once it is encoded: %v", err)
	}
	shown()
	follower.Release()
	if _, err := views.Hold("s1").Load(1 << 30); err != nil {
		t.Errorf("a large one alone: %v", err)
	}
}
