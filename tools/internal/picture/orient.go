package picture

import (
	"bytes"
	"encoding/binary"
	"image"
)

// An orientation is an EXIF orientation: 1 is upright, 2 to 4 are mirrored or upside down, 5 to 8 are also turned by a
// right angle.
type orientation int

const upright orientation = 1

// sideways reports whether the picture is turned by a right angle, so that width and height are exchanged.
func (o orientation) sideways() bool { return o >= 5 && o <= 8 }

// turn returns the picture upright.
func (o orientation) turn(src *image.NRGBA) *image.NRGBA {
	if o <= upright || o > 8 {
		return src
	}
	w, h := src.Rect.Dx(), src.Rect.Dy()
	if o.sideways() {
		w, h = h, w
	}
	dst := image.NewNRGBA(image.Rect(0, 0, w, h))
	for y := range h {
		for x := range w {
			dst.SetNRGBA(x, y, src.NRGBAAt(o.source(x, y, w, h)))
		}
	}
	return dst
}

// source returns the position in the stored picture of a pixel of the upright picture, which is w wide and h high.
func (o orientation) source(x, y, w, h int) (int, int) {
	switch o {
	case 2:
		return w - 1 - x, y
	case 3:
		return w - 1 - x, h - 1 - y
	case 4:
		return x, h - 1 - y
	case 5:
		return y, x
	case 6:
		return y, w - 1 - x
	case 7:
		return h - 1 - y, w - 1 - x
	case 8:
		return h - 1 - y, x
	}
	return x, y
}

// jpegOrientation returns the orientation in the EXIF data of a JPEG file, upright if there is none or it is invalid.
func jpegOrientation(data []byte) orientation {
	const app1, startOfScan = 0xE1, 0xDA
	for rest := data[min(2, len(data)):]; len(rest) >= 4 && rest[0] == 0xFF && rest[1] != startOfScan; {
		size := int(binary.BigEndian.Uint16(rest[2:])) + 2
		if size < 4 || size > len(rest) {
			break
		}
		if exif, ok := bytes.CutPrefix(rest[4:size], []byte("Exif\x00\x00")); ok && rest[1] == app1 {
			return tiffOrientation(exif)
		}
		rest = rest[size:]
	}
	return upright
}

// tiffOrientation returns the orientation in the entries of the first directory.
func tiffOrientation(tiff []byte) orientation {
	const header, entrySize, tagOrientation, typeShort = 8, 12, 0x0112, 3
	if len(tiff) < header {
		return upright
	}
	var order binary.ByteOrder = binary.BigEndian
	if string(tiff[:2]) == "II" {
		order = binary.LittleEndian
	}
	at := uint64(order.Uint32(tiff[4:]))
	if at+2 > uint64(len(tiff)) {
		return upright
	}
	entries := tiff[at+2:]
	for range order.Uint16(tiff[at:]) {
		if len(entries) < entrySize {
			break
		}
		value := orientation(order.Uint16(entries[8:]))
		if order.Uint16(entries) == tagOrientation && order.Uint16(entries[2:]) == typeShort && value >= upright &&
			value <= 8 {
			return value
		}
		entries = entries[entrySize:]
	}
	return upright
}
