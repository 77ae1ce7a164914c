package picture

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"runtime"
	"slices"
	"testing"
)

// Kinds of PNG, as in its header.
const (
	gray       = 0
	paletted   = 3
	colorAlpha = 6
)

// appendChunk appends a part of a PNG.
func appendChunk(b []byte, name string, data []byte) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(len(data)))
	b = append(append(b, name...), data...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(append([]byte(name), data...)))
}

// pngHeader is the beginning of a PNG.
func pngHeader(width, height int, depth, kind, interlace byte) []byte {
	header := binary.BigEndian.AppendUint32(nil, uint32(width))
	header = binary.BigEndian.AppendUint32(header, uint32(height))
	return appendChunk(bytes.Clone(pngSignature), "IHDR", append(header, depth, kind, 0, 0, interlace))
}

// blankPNG is a picture of zeros in very few bytes.
func blankPNG(t *testing.T, width, height int, depth, kind, interlace byte) []byte {
	t.Helper()
	b := pngHeader(width, height, depth, kind, interlace)
	if kind == paletted {
		b = appendChunk(b, "PLTE", make([]byte, 3))
	}
	bits := int(depth)
	if kind == colorAlpha {
		bits *= 4
	}
	lines := func(width, height int) int {
		if width <= 0 || height <= 0 {
			return 0
		}
		return height * (1 + (width*bits+7)/8)
	}
	left := lines(width, height)
	if interlace != 0 {
		left = 0
		for _, p := range [][4]int{
			{8, 0, 8, 0}, {8, 4, 8, 0}, {4, 0, 8, 4}, {4, 2, 4, 0}, {2, 0, 4, 2}, {2, 1, 2, 0}, {1, 0, 2, 1},
		} {
			left += lines((width-p[1]+p[0]-1)/p[0], (height-p[3]+p[2]-1)/p[2])
		}
	}
	var packed bytes.Buffer
	w := zlib.NewWriter(&packed)
	zeros := make([]byte, 1<<20)
	for ; left > 0; left -= len(zeros) {
		if _, err := w.Write(zeros[:min(left, len(zeros))]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return appendChunk(appendChunk(b, "IDAT", packed.Bytes()), "IEND", nil)
}

// blankJPEG is a gray picture: of three or four components, in one scan of the lowest frequencies.
func blankJPEG(width, height int, frame byte, components ...byte) []byte {
	b := []byte{0xFF, 0xD8}
	segment := func(marker byte, data ...byte) {
		b = binary.BigEndian.AppendUint16(append(b, 0xFF, marker), uint16(len(data)+2))
		b = append(b, data...)
	}
	segment(0xEE, []byte("Adobe\x00\x64\x00\x00\x00\x00\x00")...)
	segment(0xDB, append([]byte{0}, bytes.Repeat([]byte{1}, 64)...)...)
	header := binary.BigEndian.AppendUint16([]byte{8}, uint16(height))
	header = append(binary.BigEndian.AppendUint16(header, uint16(width)), byte(len(components)))
	scan := []byte{byte(len(components))}
	samples := 0
	for i, sampling := range components {
		header = append(header, byte(i+1), sampling, 0)
		scan = append(scan, byte(i+1), 0)
		samples += int(sampling>>4) * int(sampling&15)
	}
	segment(frame, header...)
	for _, class := range []byte{0x00, 0x10} { // one code, of one bit, for zero: of a difference, and the end of a block
		segment(0xC4, append([]byte{class, 1}, make([]byte, 16)...)...)
	}
	last := byte(63)
	if frame == 0xC2 {
		last = 0
	}
	segment(0xDA, append(scan, 0, last, 0)...)
	return append(append(b, make([]byte, width*height*samples/8+1024)...), 0xFF, 0xD9)
}

// What is counted before a picture is decoded is what its decoding and scaling take.
func TestPicturesCostWhatIsCounted(t *testing.T) {
	const width, height = 2100, 1050 // more than is shown as it is
	for name, data := range map[string][]byte{
		"gray":                 blankPNG(t, width, height, 8, gray, 0),
		"interlaced gray":      blankPNG(t, width, height, 16, gray, 1),
		"paletted":             blankPNG(t, width, height, 8, paletted, 0),
		"deep":                 blankPNG(t, width, height, 16, colorAlpha, 0),
		"deep and interlaced":  blankPNG(t, width, height, 16, colorAlpha, 1),
		"tall":                 blankPNG(t, 1, 1_000_000, 8, gray, 0),
		"wide":                 blankPNG(t, 1_000_000, 1, 8, gray, 0),
		"JPEG":                 blankJPEG(width, height, 0xC0, 0x22, 0x11, 0x11),
		"progressive":          blankJPEG(width, height, 0xC2, 0x22, 0x11, 0x11),
		"progressive and full": blankJPEG(width, height, 0xC2, 0x11, 0x11, 0x11),
		"progressive CMYK":     blankJPEG(width, height, 0xC2, 0x11, 0x11, 0x11, 0x11),
	} {
		config, format, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w, h := within(config.Width, config.Height)
		counted := decodedBytes(data, format, config) + scaledBytes(config, upright, w, h)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, ok := Fit(t.Context(), data, Type(data), MaxBase64); !ok {
			t.Errorf("%s: not shown", name)
		}
		runtime.ReadMemStats(&after)
		took := int64(after.TotalAlloc - before.TotalAlloc)
		t.Logf("%s: %d bytes of file, %d MiB counted, %d allocated", name, len(data), counted>>20, took>>20)
		if took > counted+8<<20 || counted > 2*took {
			t.Errorf("%s: %d MiB counted, %d allocated", name, counted>>20, took>>20)
		}
	}
}

// Files of some hundred kilobytes whose decoding or scaling would take gigabytes are not decoded.
func TestPicturesThatCostTooMuch(t *testing.T) {
	t.Parallel()
	for name, data := range map[string][]byte{
		"tall":             pngHeader(1, 100_000_000, 8, gray, 0),
		"wide":             pngHeader(100_000_000, 1, 8, gray, 0),
		"deep":             pngHeader(10_000, 10_000, 16, colorAlpha, 0),
		"progressive CMYK": blankJPEG(10_000, 10_000, 0xC2, 0x11, 0x11, 0x11, 0x11)[:1000],
	} {
		config, format, err := image.DecodeConfig(bytes.NewReader(data))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		w, h := within(config.Width, config.Height)
		if n := decodedBytes(data, format, config) + scaledBytes(config, upright, w, h); n <= maxDecoded {
			t.Errorf("%s: only %d MiB counted", name, n>>20)
		}
	}
	// What is cheap to decode and dear to scale is not shown either, though all of it is there.
	if _, ok := Fit(t.Context(), blankPNG(t, 1, 12_000_000, 8, gray, 0), "image/png", MaxBase64); ok {
		t.Error("a picture of a gigabyte is scaled")
	}
	// A photo of 48 megapixels costs less.
	photo := blankJPEG(8064, 6048, 0xC0, 0x22, 0x11, 0x11)
	config := image.Config{Width: 8064, Height: 6048}
	if n := decodedBytes(photo, "jpeg", config) + scaledBytes(config, upright, 2000, 1500); n > maxDecoded {
		t.Errorf("a photo: %d MiB counted", n>>20)
	}
}

// A JPEG that the decoder may understand in another way is counted with the most that there is.
func TestUnclearJPEGCostsTheMost(t *testing.T) {
	t.Parallel()
	clear := blankJPEG(100, 100, 0xC0, 0x11, 0x11, 0x11)
	for name, data := range map[string][]byte{
		"between segments": append([]byte{0xFF, 0xD8, 0x00}, clear[2:]...),
		"fill":             append([]byte{0xFF, 0xD8, 0xFF}, clear[2:]...),
		"no length":        append([]byte{0xFF, 0xD8, 0xFF, 0xD0}, clear[2:]...),
		"none":             clear[:2],
	} {
		if n := jpegBytes(data, 100, 100); n != 24*100*100 {
			t.Errorf("%s: %d bytes", name, n)
		}
	}
	if n := jpegBytes(clear, 100, 100); n >= 24*100*100/2 {
		t.Errorf("a clear one: %d bytes", n)
	}
}

// A progressive JPEG may visit all its pixels with every hundred bytes. One of the usual scans is shown.
func TestManyScansCostTooMuch(t *testing.T) {
	t.Parallel()
	once := blankJPEG(1000, 1000, 0xC0, 0x11)
	for scans, want := range map[int]bool{12: true, 3200: true, 3201: false} {
		data := append(slices.Clip(once), bytes.Repeat([]byte{0xFF, startOfScan}, scans-1)...)
		if _, ok := Fit(t.Context(), data, "image/jpeg", MaxBase64); ok != want {
			t.Errorf("%d scans: shown %t", scans, ok)
		}
	}
}

// A decoder that has much to do ends with its call.
func TestDecodingIsInterrupted(t *testing.T) {
	t.Parallel()
	cause := errors.New("the call was cancelled")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	data := blankPNG(t, 10, 10, 8, gray, 0)
	if _, err := (interruptible{ctx, bytes.NewReader(data)}).Read(make([]byte, 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("read: %v", err)
	}
	if _, ok := Fit(ctx, data, "image/png", MaxBase64); ok {
		t.Error("a picture was decoded")
	}
}
