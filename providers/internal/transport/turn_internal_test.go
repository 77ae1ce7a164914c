package transport

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// sending is a body of a server that always has more.
type sending struct{}

func (sending) Read(p []byte) (int, error) { return len(p), nil }
func (sending) Close() error               { return nil }

// Of the replies of a server few are decoded at once, and those that wait for something else do not count.
func TestRepliesAreDecodedInTurn(t *testing.T) { // not parallel: it has the turns of the process
	synctest.Test(t, func(t *testing.T) {
		const replies, slow = 50, time.Millisecond
		var busy, peak atomic.Int32
		read := func(server string, work func()) {
			b := &body{ReadCloser: sending{}, ctx: t.Context(), cancel: func() {}, left: 1 << 20, most: 1 << 20, server: server}
			defer func() { _ = b.Close() }()
			for range 5 {
				if _, err := b.Read(make([]byte, 8)); err != nil {
					t.Error(err)
				}
				work()
			}
		}
		for range replies {
			go read("https://hostile.example", func() {
				peak.Store(max(peak.Load(), busy.Add(1)))
				time.Sleep(slow)
				busy.Add(-1)
			})
		}
		begun := time.Now()
		time.Sleep(slow / 2)
		read("https://honest.example", func() {})
		if took := time.Since(begun); took > slow {
			t.Errorf("a reply of another server took %s", took)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if n := peak.Load(); n == 0 || n > int32(atOnce) {
			t.Errorf("%d are decoded at once, want %d", n, atOnce)
		}
		begun = time.Now()
		for range 4 {
			go read("https://hostile.example", func() { time.Sleep(time.Hour) })
		}
		time.Sleep(time.Second)
		read("https://hostile.example", func() {})
		if took := time.Since(begun); took > 2*time.Second {
			t.Errorf("behind replies that wait one took %s", took)
		}
		time.Sleep(6 * time.Hour)
	})
}
