package picture

import (
	"bytes"
	"context"
	"encoding/base64"
	"image"
	_ "image/gif" // decoders register themselves; that is how package image works
	"image/jpeg"
	"image/png"
	"math"

	"golang.org/x/image/draw"
	_ "golang.org/x/image/webp"

	"github.com/loopbus/loopbus/tools/internal/room"
)

// Fit returns an image of a type that [Type] knows. It does not change it if it is small enough. Otherwise it scales it
// down, first to maxSide and then step by step until its base64 text is shorter than maxBase64. ok is false if the
// image cannot be decoded or made small enough, or if ctx ends. The caller should have one of its [Turns].
func Fit(ctx context.Context, data []byte, mime string, maxBase64 int) (pic Picture, ok bool) {
	if len(data) > MaxFile {
		return Picture{}, false
	}
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if err != nil || config.Width < 1 || config.Height < 1 || config.Width > maxPixels/config.Height {
		return Picture{}, false
	}
	if format == "jpeg" && scannedPixels(data, config) > maxScanned {
		return Picture{}, false
	}
	lies := upright
	if mime == mimeJPEG {
		lies = jpegOrientation(data)
	}
	width, height := config.Width, config.Height
	if lies.sideways() {
		width, height = height, width
	}
	pic = Picture{originalWidth: width, originalHeight: height}
	small := width <= maxSide && height <= maxSide && base64.StdEncoding.EncodedLen(len(data)) < maxBase64
	if !small {
		width, height = within(width, height)
	}
	needed := decodedBytes(data, format, config)
	if !small {
		needed += scaledBytes(config, lies, width, height)
	}
	if needed > maxDecoded {
		return Picture{}, false
	}
	if needed > smallDecoded {
		leave, err := room.Pictures.Take(ctx, needed)
		if err != nil {
			return Picture{}, false
		}
		defer leave()
	}
	decoded, _, err := image.Decode(interruptible{ctx, bytes.NewReader(data)})
	if pic.Undecoded = err != nil; pic.Undecoded && !(small && isAnimatedWebP(data)) {
		return Picture{}, false
	}
	if small {
		pic.data, pic.MIME, pic.width, pic.height = data, mime, width, height
		return pic, true
	}
	for ctx.Err() == nil {
		pic.width, pic.height = width, height
		if pic.data, pic.MIME = encode(scale(decoded, lies, width, height), maxBase64); pic.data != nil {
			return pic, true
		}
		if width == 1 && height == 1 {
			break
		}
		width, height = max(1, width*3/4), max(1, height*3/4)
	}
	return Picture{}, false
}

// interruptible reads data, and returns an error once its context has ended: a few bytes of data can keep a decoder
// busy with many pixels.
type interruptible struct {
	ctx  context.Context
	data *bytes.Reader
}

func (i interruptible) Read(p []byte) (int, error) {
	if err := i.ctx.Err(); err != nil {
		return 0, err
	}
	return i.data.Read(p)
}

// isAnimatedWebP reports whether data is an animated WebP, which models may accept but package webp cannot decode.
func isAnimatedWebP(data []byte) bool {
	const flags, animation = 20, 0x02
	return len(data) > flags && string(data[8:16]) == "WEBPVP8X" && data[flags]&animation != 0
}

// within limits the width to the largest side, and then the height, and keeps the proportions.
func within(width, height int) (w, h int) {
	if width > maxSide {
		width, height = maxSide, proportion(height, maxSide, width)
	}
	if height > maxSide {
		width, height = proportion(width, maxSide, height), maxSide
	}
	return width, height
}

func proportion(n, numerator, denominator int) int {
	return max(1, int(math.Floor(float64(n)*float64(numerator)/float64(denominator)+0.5)))
}

// scale scales a picture and turns it upright: the new encoding has no EXIF orientation.
func scale(src image.Image, lies orientation, width, height int) image.Image {
	if lies.sideways() {
		width, height = height, width
	}
	dst := image.NewNRGBA(image.Rect(0, 0, width, height))
	draw.CatmullRom.Scale(dst, dst.Bounds(), src, src.Bounds(), draw.Src, nil)
	return lies.turn(dst)
}

// encode tries the lossless encoding first, and then lower and lower qualities. It returns nil if all are too long.
func encode(img image.Image, maxBase64 int) (data []byte, mime string) {
	var b bytes.Buffer
	if png.Encode(&b, img) == nil && base64.StdEncoding.EncodedLen(b.Len()) < maxBase64 {
		return b.Bytes(), "image/png"
	}
	for _, quality := range []int{85, 80, 70, 55, 40} {
		b.Reset()
		if jpeg.Encode(&b, img, &jpeg.Options{Quality: quality}) == nil &&
			base64.StdEncoding.EncodedLen(b.Len()) < maxBase64 {
			return b.Bytes(), mimeJPEG
		}
	}
	return nil, ""
}
