package picture_test

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"image"
	"image/color"
	"image/jpeg"
	_ "image/png"
	"testing"

	"github.com/loopbus/loopbus/tools/internal/picture"
)

var colours = map[byte]color.NRGBA{
	'R': {255, 0, 0, 255}, 'G': {0, 255, 0, 255}, 'B': {0, 0, 255, 255}, 'W': {255, 255, 255, 255},
}

// photograph makes a JPEG with an EXIF orientation. Its quarters are named from left to right, the upper ones first.
func photograph(t *testing.T, quarters string, width, height int, order binary.AppendByteOrder,
	orientation uint16) []byte {
	t.Helper()
	img := image.NewNRGBA(image.Rect(0, 0, width, height))
	for y := range height {
		for x := range width {
			img.SetNRGBA(x, y, colours[quarters[x*2/width+y*2/height*2]])
		}
	}
	var b bytes.Buffer
	if err := jpeg.Encode(&b, img, nil); err != nil {
		t.Fatal(err)
	}
	tiff := []byte("MM")
	if order == binary.AppendByteOrder(binary.LittleEndian) {
		tiff = []byte("II")
	}
	tiff = order.AppendUint16(tiff, 42)
	tiff = order.AppendUint32(tiff, 8)
	tiff = order.AppendUint16(tiff, 2) // entries
	for _, entry := range [][2]uint16{{0x0100, 1}, {0x0112, orientation}} {
		tiff = order.AppendUint16(order.AppendUint16(tiff, entry[0]), 3)
		tiff = order.AppendUint16(order.AppendUint32(tiff, 1), entry[1])
		tiff = append(tiff, 0, 0)
	}
	exif := append([]byte("Exif\x00\x00"), tiff...)
	out := append([]byte(nil), b.Bytes()[:2]...)
	out = append(out, 0xFF, 0xE1)
	out = binary.BigEndian.AppendUint16(out, uint16(len(exif)+2))
	return append(append(out, exif...), b.Bytes()[2:]...)
}

// quarters names the colours of a picture's quarters.
func quarters(img image.Image) string {
	name := func(x, y int) byte {
		r, g, b, _ := img.At(x, y).RGBA()
		for n, c := range colours {
			if r>>15 == uint32(c.R)>>7 && g>>15 == uint32(c.G)>>7 && b>>15 == uint32(c.B)>>7 {
				return n
			}
		}
		return '?'
	}
	w, h := img.Bounds().Dx(), img.Bounds().Dy()
	return string([]byte{name(w/4, h/4), name(w*3/4, h/4), name(w/4, h*3/4), name(w*3/4, h*3/4)})
}

// A picture that is encoded anew loses its EXIF data, and therefore has to be upright.
func TestScaledPhotographsAreUpright(t *testing.T) {
	t.Parallel()
	for o, lies := range []string{1: "RGBW", "GRWB", "WBGR", "BWRG", "RBGW", "GWRB", "WGBR", "BRWG", "RGBW"} {
		if o == 0 {
			continue // there is none; 9 is not one either
		}
		for _, order := range []binary.AppendByteOrder{binary.BigEndian, binary.LittleEndian} {
			photo := photograph(t, lies, 96, 48, order, uint16(o))
			pic, ok := picture.Fit(t.Context(), photo, picture.Type(photo), 700)
			if !ok {
				t.Fatalf("orientation %d: not shown", o)
			}
			data, err := base64.StdEncoding.DecodeString(pic.Image().Data)
			if err != nil {
				t.Fatal(err)
			}
			img, _, err := image.Decode(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if got := quarters(img); got != "RGBW" || img.Bounds().Dx() > img.Bounds().Dy() != (o <= 4 || o == 9) {
				t.Errorf("orientation %d %v: %v %s", o, order, img.Bounds(), got)
			}
		}
	}
}

func TestScaleOfPhotographsThatLieOnASide(t *testing.T) {
	t.Parallel()
	photo := photograph(t, "GWRB", 2100, 40, binary.BigEndian, 6)
	pic, ok := picture.Fit(t.Context(), photo, "image/jpeg", picture.MaxBase64)
	const want = "[Image: original 40x2100, displayed at 38x2000. Multiply coordinates by 1.05 to map to original image.]"
	if got := pic.Note(); !ok || got != want {
		t.Errorf("%v, got %q", ok, got)
	}
}

// EXIF data that is cut anywhere, or lies about its sizes, is as good as none.
func TestBrokenEXIF(t *testing.T) {
	t.Parallel()
	whole := photograph(t, "GWRB", 96, 48, binary.BigEndian, 6)
	for at := 2; at < 60; at++ {
		broken := bytes.Clone(whole)
		broken[at] ^= 0xFF
		for _, data := range [][]byte{broken, whole[:at]} {
			pic, ok := picture.Fit(t.Context(), data, "image/jpeg", 700)
			if got := len(pic.Image().Data); ok && (got == 0 || got >= 700) {
				t.Errorf("byte %d: %d bytes", at, got)
			}
		}
	}
}
