package seek

import (
	"bytes"
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/loopbus/loopbus/tools"
)

// A text is found where package bytes finds it, and as often.
func TestSeek(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	random := func(n int) []byte { // of few letters, and repeated, so that much is found in part
		text := make([]byte, 1+r.IntN(n))
		for i := range text {
			text[i] = "aaab"[r.IntN(4)]
		}
		return bytes.Repeat(text, n/len(text)+1)[:n]
	}
	for range 20000 {
		text, sought := random(1+r.IntN(300)), random(1+r.IntN(100))
		if r.IntN(2) == 0 { // a part of the text, perhaps with another end
			from := r.IntN(len(text))
			sought = append([]byte(nil), text[from:from+1+r.IntN(len(text)-from)]...)
			sought[len(sought)-1] = "ab"[r.IntN(2)]
		}
		check(t, text, sought)
	}
	for range 50 { // across the borders between strides
		text, at := bytes.Repeat([]byte("a"), 2*stride+100), stride-50+r.IntN(100)
		sought := append([]byte("b"), random(1+r.IntN(100))...)
		copy(text[at:], sought)
		check(t, text, sought)
	}
}

func check(t *testing.T, text, sought []byte) {
	t.Helper()
	first, count, err := Seek(t.Context(), text, sought, math.MaxInt)
	if want := bytes.Index(text, sought); first != want || count != bytes.Count(text, sought) || err != nil {
		t.Fatalf("%q in %.300q: at %d, not %d; %d, not %d; error %v", sought, text, first, want, count,
			bytes.Count(text, sought), err)
	}
	if at, n, err := Seek(t.Context(), text, sought, 1); at != first || n != min(count, 1) || err != nil {
		t.Fatalf("%q in %.300q: the first of %d is at %d, not %d; error %v", sought, text, n, at, first, err)
	}
}

// A brief context ends after some looks at it.
type brief struct {
	context.Context
	looks int
}

func (b *brief) Err() error {
	if b.looks--; b.looks < 0 {
		return context.Canceled
	}
	return nil
}

// A search ends with its context, wherever it is.
func TestSeekInterrupted(t *testing.T) {
	t.Parallel()
	text := bytes.Repeat([]byte("a"), 4*stride)
	for name, sought := range map[string][]byte{
		"nothing is found":    []byte("b"),
		"all is found":        []byte("a"),
		"all but the end":     append(bytes.Repeat([]byte("a"), stride), 'b'),
		"nothing of a long":   bytes.Repeat([]byte("b"), 100),
		"the beginning alone": append(bytes.Repeat([]byte("a"), maxHead), "bb"...),
	} {
		for looks := range 4 {
			_, _, err := Seek(&brief{t.Context(), looks}, text, sought, math.MaxInt)
			if !errors.Is(err, tools.ErrAborted) {
				t.Errorf("%s: %v after %d looks", name, err, looks)
			}
		}
		if _, _, err := Seek(&brief{t.Context(), 6}, text, sought, math.MaxInt); err != nil {
			t.Errorf("%s: %v after all looks", name, err)
		}
	}
}
