// Package picture makes images fit for models. A vendor refuses a request with an image that it cannot read, and
// refuses every later request of the session, too, because the image is part of them. So an image of a file or of a
// server that is not trusted is shown only after it was decoded here. What is too large is scaled down.
//
// A few bytes can be a picture of many pixels. [Fit] knows before it decodes what the picture will take, and refuses
// what takes too much. [Turns] let one picture be decoded at a time, which has a room of its own.
package picture

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// MaxBase64 is the largest base64 size of an image that model APIs accept: 4.5 MiB.
	MaxBase64 = 9 << 19
	// MaxFile is the largest size in bytes of an image that is decoded.
	MaxFile = 64 << 20

	// maxSide is the largest width and height in pixels of an image that is not scaled down.
	maxSide = 2000
	// maxPixels and maxDecoded limit the memory that a hostile file can take.
	maxPixels = 100_000_000
)

// A Picture is an encoded image for the model.
type Picture struct {
	data                          []byte
	width, height                 int
	originalWidth, originalHeight int

	// MIME is the type of the encoded image, which may differ from the original's.
	MIME string
	// Undecoded is set for an animated WebP, which models may accept but package webp cannot decode. Its bytes may be
	// anything.
	Undecoded bool
}

// Image returns the content for the model.
func (p Picture) Image() schemas.Image {
	return schemas.Image{Data: base64.StdEncoding.EncodeToString(p.data), MimeType: p.MIME}
}

// Note returns the text that maps positions in a scaled image to the original, "" if the image was not scaled.
func (p Picture) Note() string {
	if p.width == p.originalWidth && p.height == p.originalHeight {
		return ""
	}
	return fmt.Sprintf("[Image: original %dx%d, displayed at %dx%d. Multiply coordinates by %s to map to original image.]",
		p.originalWidth, p.originalHeight, p.width, p.height, twoDecimals(float64(p.originalWidth)/float64(p.width)))
}

// twoDecimals rounds halves up, as JavaScript's toFixed does and strconv does not.
func twoDecimals(f float64) string {
	if eighths := f * 8; eighths == math.Trunc(eighths) && int64(eighths)%2 == 1 {
		f += 0.001
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}

// Turns let one picture be decoded at a time: decoding takes some hundred megabytes. Create them with [NewTurns].
type Turns struct{ taken chan struct{} }

// process has the turns of [Shared].
var process = NewTurns()

// NewTurns returns turns that are free.
func NewTurns() Turns { return Turns{make(chan struct{}, 1)} }

// Shared returns the turns of everything in this process, which shares its memory.
func Shared() Turns { return process }

// Take waits for a turn, which lasts until end is called. It returns an error if ctx ends before.
func (t Turns) Take(ctx context.Context) (end func(), err error) {
	select {
	case t.taken <- struct{}{}:
		return func() { <-t.taken }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
