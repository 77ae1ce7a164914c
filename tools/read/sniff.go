package read

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
)

// sniffBytes is how many bytes of a file are read to detect its type.
const sniffBytes = 4100

const mimeJPEG = "image/jpeg"

var pngSignature = []byte("\x89PNG\r\n\x1a\n")

// sniff detects by content whether a file is an image that models accept. It returns the MIME type or "", and seeks
// back to the start of the file.
func sniff(file *os.File) (string, error) {
	head := make([]byte, sniffBytes)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	return imageType(head[:n]), rewind(file)
}

func imageType(head []byte) string {
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
