package picture

import (
	"bytes"
	"encoding/binary"
	"image"
	"image/color"

	"github.com/loopbus/loopbus/tools/internal/room"
)

// maxDecoded limits the memory for decoding and scaling one picture, in bytes. A photo of 48 megapixels takes about
// 500 MiB, most of it while it is scaled.
const maxDecoded = room.MaxPicture

// smallDecoded is the memory that a picture takes without waiting for room.
const smallDecoded = 16 << 20

// decodedBytes returns an upper bound of the memory that the decoder of a format takes for a picture. A file of a few
// hundred bytes can expand to as many pixels as its header says, so the bound is computed before decoding.
func decodedBytes(data []byte, format string, config image.Config) int64 {
	pixels := int64(config.Width) * int64(config.Height)
	switch format {
	case "jpeg":
		return jpegBytes(data, int64(config.Width), int64(config.Height))
	case "png":
		return pixels * pngBytes(data, config.ColorModel)
	case "gif":
		return 2 * pixels // a second copy is needed to reorder interlaced lines
	}
	return 8 * pixels // WebP: the palette is expanded in a copy
}

// pngBytes returns the memory for one pixel of a PNG.
func pngBytes(data []byte, model color.Model) int64 {
	const interlace = 28 // offset in the file: the header is the first chunk
	transparent := bytes.Contains(data, []byte("tRNS"))
	each := int64(4)
	if _, ok := model.(color.Palette); ok || model == color.GrayModel && !transparent {
		each = 1
	}
	switch model {
	case color.Gray16Model, color.RGBA64Model, color.NRGBA64Model:
		each = 8
	}
	if len(data) > interlace && data[interlace] != 0 {
		return 2 * each // each pass is decoded to a separate picture
	}
	return each
}

// jpegBytes returns the memory for a JPEG: for each sample of a component one byte and, if the picture is progressive,
// a coefficient of four bytes; and a copy in another color model if the decoder makes one.
func jpegBytes(data []byte, width, height int64) int64 {
	const jfifOrNot, black = 3, 4
	frame, progressive := jpegFrame(data)
	if len(frame) < 9 || len(frame) < 6+3*int(frame[5]) || frame[7]>>4 == 0 || frame[7]&15 == 0 {
		return 24 * width * height // the largest possible value
	}
	count := frame[5]
	h, v := int64(frame[7]>>4), int64(frame[7]&15)
	units := ((width + 8*h - 1) / (8 * h)) * ((height + 8*v - 1) / (8 * v))
	samples := int64(0)
	for i := range int(count) {
		sampling := frame[6+3*i+1]
		samples += 64 * units * int64(sampling>>4) * int64(sampling&15)
	}
	total := samples
	if progressive {
		total += 4 * samples
	}
	if count == black || count == jfifOrNot &&
		(bytes.Contains(data, []byte("Adobe")) || frame[6] == 'R' && frame[9] == 'G' && frame[12] == 'B') {
		total += 4 * width * height
	}
	return total
}

// maxScanned is how many pixels the scans of a JPEG may have together. A progressive picture has some ten scans; one of
// a hundred bytes can visit each pixel of the picture.
const maxScanned = 32 * maxPixels

// scannedPixels returns how many pixels the scans of a JPEG visit at most: their marker occurs nowhere else, but in
// thumbnails and other data of programs.
func scannedPixels(data []byte, config image.Config) int64 {
	return int64(bytes.Count(data, []byte{0xFF, startOfScan})) * int64(config.Width) * int64(config.Height)
}

const startOfScan = 0xDA

// jpegFrame returns the frame header of a JPEG without its length. It returns nil if the decoder might use a different
// header: the decoder skips stray bytes between segments.
func jpegFrame(data []byte) (header []byte, progressive bool) {
	const firstFrame, progressiveFrame = 0xC0, 0xC2
	for rest := data[min(2, len(data)):]; len(rest) >= 4 && rest[0] == 0xFF && rest[1] >= firstFrame; {
		marker, size := rest[1], int(binary.BigEndian.Uint16(rest[2:]))+2
		if size < 4 || size > len(rest) || marker == 0xFF || marker >= 0xD0 && marker <= startOfScan {
			break
		}
		if marker <= progressiveFrame {
			return rest[4:size], marker == progressiveFrame
		}
		rest = rest[size:]
	}
	return nil, false
}

// scaledBytes returns the memory that scaling to a size takes. The width is scaled first, to four numbers for each
// pixel, and each row and column has weights for about four others. The result exists three times: as decoded, upright
// and encoded.
func scaledBytes(from image.Config, lies orientation, width, height int) int64 {
	const number, share = 8, 16
	if lies.sideways() {
		width, height = height, width
	}
	between := 4 * number * int64(width) * int64(from.Height)
	shares := 5 * share * (int64(max(from.Width, width)) + int64(max(from.Height, height)))
	return between + shares + 12*int64(width)*int64(height)
}
