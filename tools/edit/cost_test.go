package edit

import (
	"strings"
	"testing"
	"time"
)

// soon is more than a hundred times of what the texts below take in proportion to their sizes. What grows with the
// product of two sizes takes longer.
const soon = 5 * time.Second

// Many lines in place of a long one take time in proportion to both, not to their product.
func TestManyLinesForALongOne(t *testing.T) {
	t.Parallel()
	const size, lines = 1 << 20, 1 << 15
	old, new := strings.Repeat("x", size), strings.Repeat("\n", lines)
	begun := time.Now()
	o, err := apply(t.Context(), "f", []byte("a\r\n"+old+"\r\nb"), []replacement{{old, new}})
	if took := time.Since(begun); err != nil || took > soon {
		t.Errorf("%v, error %v", took, err)
	}
	if want := "a\r\n" + strings.Repeat("\r\n", lines) + "\r\nb"; string(o.content) != want {
		t.Errorf("the file is %d bytes, not %d", len(o.content), len(want))
	}
}

// The end of this text has the same hash in package bytes as as many letters a before it: a search that compares
// wherever the hash fits compares everywhere.
func TestTextsThatCollide(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	content, old := strings.Repeat("a", size), strings.Repeat("a", size/2)+"x5H%%UC"
	begun := time.Now()
	_, err := apply(t.Context(), "f", []byte(content), []replacement{{old, "r"}})
	if took := time.Since(begun); took > soon {
		t.Errorf("%v", took)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "Could not find the exact text in f.") {
		t.Errorf("got %v", err)
	}
}
