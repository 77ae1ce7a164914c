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

// Refused reports whether a block of headers, from its first line to the empty one at its end, has too many, a line
// that does not end with CR LF, an empty line before its end, or a header of the server's in the middle of a line.
// nats.go then reads a header that the server has neither seen, removed nor replaced, such as the account that a
// request comes from, or does not read one that it has added.
func Refused(block []byte) bool {
	if len(block) > MostBytes {
		return true
	}
	for _, name := range addedFirst {
		if isWithinLine(block, name) {
			return true
		}
	}
	const others = 2 // the first line, and the empty one at the end
	for range Most + others + 1 {
		end := bytes.IndexByte(block, '\n') + 1
		if end == 0 {
			return false
		}
		if line := block[:end]; !bytes.HasSuffix(line, lineEnd) || len(line) == len(lineEnd) && end < len(block) {
			return true
		}
		block = block[end:]
	}
	return true
}

// isWithinLine reports whether name is somewhere in a block but at the beginning of a line.
func isWithinLine(block, name []byte) bool {
	for from := 0; ; {
		i := bytes.Index(block[from:], name)
		if i < 0 {
			return false
		}
		if at := from + i; at > 0 && !bytes.HasSuffix(block[:at], lineEnd) {
			return true
		}
		from += i + len(name)
	}
}

// LeftOut reports whether the headers of a message were left out.
func LeftOut(header map[string][]string) bool { return len(header[Name]) > 0 }

var (
	lineEnd = []byte("\r\n")
	// addedFirst are the headers that a server adds where it takes the end of a client's block to be, whether or not that
	// is the end of a line.
	addedFirst = [][]byte{[]byte("Nats-Request-Info:"), []byte("Nats-Stream:")}
)

// stub returns what takes the place of an encoded header: its size, and what a server may have added to it.
func stub(size int, block []byte) []byte {
	out := append([]byte(version+Name+": "), strconv.Itoa(size)...)
	return append(append(append(out, '\r', '\n'), tail(block)...), '\r', '\n')
}

// tail returns the last headers of a block, with their line ends.
func tail(block []byte) []byte {
	block = bytes.TrimSuffix(block, lineEnd)
	at := len(block)
	for range keptTail {
		before := bytes.LastIndex(block[:max(at-len(lineEnd), 0)], lineEnd)
		if before += len(lineEnd); before < len(lineEnd) || len(block)-before > tailSize ||
			before+len(lineEnd) == at || Refused(block[before:at]) {
			break
		}
		at = before
	}
	return block[at:]
}
