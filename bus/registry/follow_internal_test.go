package registry

import (
	"log/slog"
	"testing"
)

// Who reads entries does not wait while others are decoded: the check of a tool may take a while.
func TestEntriesAreReadWhileOthersAreDecoded(t *testing.T) {
	t.Parallel()
	f := &followed[string]{changed: make(chan struct{})}
	decodings := 0
	src := source[string]{log: slog.New(slog.DiscardHandler), decode: func(e entry, _ string) (string, error) {
		if decodings++; !f.mu.TryLock() {
			t.Error("an entry is decoded under the lock")
		} else {
			f.mu.Unlock()
		}
		return string(e.value), nil
	}}
	f.load(src, []entry{{key: "a", value: []byte("1")}}, new(foreignLog))
	f.next(src, entry{key: "a", value: []byte("2")}, new(foreignLog))
	if decodings != 2 || f.entries["a"] != "2" {
		t.Errorf("%d decoded, %v", decodings, f.entries)
	}
}
