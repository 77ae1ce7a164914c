package picture

import (
	"bytes"
	"encoding/binary"
)

// HeadBytes is how many of the first bytes of a file tell its type.
const HeadBytes = 4100

const mimeJPEG = "image/jpeg"

var pngSignature = []byte("\x89PNG\r\n\x1a\n")

// Type returns the MIME type of an image that models accept, by its first bytes, "" for anything else.
func Type(head []byte) string {
	switch {
	case bytes.HasPrefix(head, []byte{0xFF, 0xD8, 0xFF}) && len(head) > 3 && head[3] != 0xF7: // F7 is JPEG-LS
		return mimeJPEG
	case bytes.HasPrefix(head, pngSignature) && isStillPNG(head[len(pngSignature):]):
		return "image/png"
	case bytes.HasPrefix(head, []byte("GIF")):
		return "image/gif"
	case bytes.HasPrefix(head, []byte("RIFF")) && len(head) >= 12 && string(head[8:12]) == "WEBP":
		return "image/webp"
	}
	return ""
}

// isStillPNG reports whether a PNG is not an animation: whether no acTL chunk precedes the image data.
func isStillPNG(chunks []byte) bool {
	for seen := false; ; seen = true {
		if len(chunks) < 8 {
			return seen
		}
		switch string(chunks[4:8]) {
		case "IDAT":
			return true
		case "acTL":
			return false
		}
		length := uint64(binary.BigEndian.Uint32(chunks)) + 12
		if length > uint64(len(chunks)) {
			return true
		}
		chunks = chunks[length:]
	}
}
