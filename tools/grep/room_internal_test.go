package grep

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/room"
)

// Long lines wait for room, others do not wait, and the room is released.
func TestLongLinesWait(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"long":  {Data: []byte(strings.Repeat("a", 3*smallLine) + "b\n" + strings.Repeat("c", 2*smallLine) + "b")},
		"short": {Data: []byte(strings.Repeat("a", smallLine/2) + "b")},
	}
	pattern, err := compile(arguments{Pattern: "b"})
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		r := room.New(maxLine)
		scan := func(ctx context.Context, name string) (found int64, err error) {
			s := newScanner(pattern, newFindings(10, 0))
			s.room = r
			_, err = s.open(ctx, files, name, name)
			return s.found.matches, err
		}
		leave, err := r.Take(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := scan(t.Context(), "short"); n != 1 || err != nil {
			t.Errorf("a short line: %d matches, error %v", n, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { _, err := scan(ctx, "long"); done <- err }()
		synctest.Wait()
		if len(done) > 0 {
			t.Error("a long line does not wait")
		}
		cancel()
		if err := <-done; !errors.Is(err, tools.ErrAborted) {
			t.Errorf("cancelled: %v", err)
		}
		leave()
		for range 2 { // the first releases the room
			if n, err := scan(t.Context(), "long"); n != 2 || err != nil {
				t.Errorf("long lines: %d matches, error %v", n, err)
			}
		}
	})
}
