package headerlimit

import (
	"bytes"
	"strconv"
)

const (
	// Most is how many headers a message may have, and MostBytes how many bytes of them. A stream stores no more bytes.
	Most      = 128
	MostBytes = 64 << 10
	// Name is the header that a message has in place of its headers if they were more. Its value is their size.
	Name = "Loopbus-Headers-Left-Out"

	version  = "NATS/1.0\r\n"
	keptTail = 8       // headers, the last ones: those that a server has added
	tailSize = 4 << 10 // bytes of these
)

// Exceeded reports whether an encoded header has more than a message may have.
func Exceeded(block []byte) bool {
	const others = 2 // the first line, and the empty one at the end
	return len(block) > MostBytes || bytes.Count(block, newline) > Most+others
}

// LeftOut reports whether the headers of a message were left out.
func LeftOut(header map[string][]string) bool { return len(header[Name]) > 0 }

var newline = []byte{'\n'}

// stub returns what takes the place of an encoded header: its size, and what a server may have added to it.
func stub(size int, block []byte) []byte {
	out := append([]byte(version+Name+": "), strconv.Itoa(size)...)
	return append(append(append(out, '\r', '\n'), tail(block)...), '\r', '\n')
}

// tail returns the last headers of a block, with their line ends.
func tail(block []byte) []byte {
	block = bytes.TrimSuffix(block, []byte("\r\n"))
	at := len(block)
	for range keptTail {
		before := bytes.LastIndexByte(block[:max(at-1, 0)], '\n') + 1
		if before == 0 || len(block)-before > tailSize {
			break
		}
		at = before
	}
	return block[at:]
}
