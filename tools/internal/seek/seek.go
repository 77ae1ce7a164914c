// Package seek finds texts in texts, both chosen by a model, in time that is proportional to their sizes.
package seek

import (
	"bytes"
	"context"

	"github.com/loopbus/loopbus/tools"
)

const (
	// maxHead is how many bytes at the start of a sought text are left to [bytes.Index], which is fast, but may compare
	// so many bytes at each position. It hashes longer ones, and a model can choose texts that collide everywhere.
	maxHead = 31
	// stride is how many bytes are searched before the context is looked at again.
	stride = 256 << 10
)

// Seek returns the position of the first occurrence of a sought text, -1 if there is none, and how many there are that
// do not overlap. It stops after so many as most. The time is in proportion to both texts, whatever they are (the
// method of Knuth, Morris and Pratt). The error is that of a context that ends.
func Seek(ctx context.Context, text, sought []byte, most int) (first, count int, err error) {
	first = -1
	head, borders := sought[:min(len(sought), maxHead)], []int32(nil)
	for i, known, look := 0, 0, 0; i < len(text); { // sought[:known] ends before text[i]
		if i >= look {
			if err := tools.Interrupted(ctx); err != nil {
				return -1, 0, err
			}
			look = i + stride
		}
		if known == 0 {
			at := bytes.Index(text[i:min(look+len(head)-1, len(text))], head)
			if at < 0 {
				i = look
				continue
			}
			known = len(head)
			i += at + known
		}
		for end := min(len(text), look, i+len(sought)-known); i < end && text[i] == sought[known]; i++ {
			known++
		}
		switch {
		case known == len(sought):
			if count == 0 {
				first = i - known
			}
			if count++; count == most {
				return first, count, nil
			}
			known = 0
		case i < min(len(text), look):
			if borders == nil {
				borders = bordersOf(sought)
			}
			known = int(borders[known])
		}
	}
	return first, count, nil
}

// bordersOf returns, for each beginning of a text by its length, the length of its longest shorter beginning that it
// ends in, too.
func bordersOf(text []byte) []int32 {
	borders := make([]int32, len(text)) // that of the whole text is not needed
	n := 0
	for i := 1; i < len(text)-1; i++ {
		for n > 0 && text[n] != text[i] {
			n = int(borders[n])
		}
		if text[n] == text[i] {
			n++
		}
		borders[i+1] = int32(n)
	}
	return borders
}
