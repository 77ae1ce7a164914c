package schemas

import (
	"errors"
	"strconv"
	"strings"
)

// headerBuilder makes a NATS header. Its one-element lists share an array, so that a header costs two allocations, not
// one for each attribute.
type headerBuilder struct {
	values map[string][]string
	lists  []string
}

// maxHeaders is at least how many headers an event has.
const maxHeaders = 18

func newHeader() *headerBuilder {
	return &headerBuilder{make(map[string][]string, maxHeaders), make([]string, 0, maxHeaders)}
}

// set adds a header in the percent-encoding of the NATS protocol binding. It leaves out empty values: CloudEvents has
// no empty attributes.
func (h *headerBuilder) set(key, value string) {
	if value == "" {
		return
	}
	n := len(h.lists)
	h.lists = append(h.lists, EncodeHeaderValue(value))
	h.values[key] = h.lists[n : n+1 : n+1] // nobody can append to one into the next
}

const upperHex = "0123456789ABCDEF"

// EncodeHeaderValue percent-encodes what the protocol binding requires: space, double quote, percent and everything
// outside printable ASCII, byte for byte of its UTF-8.
func EncodeHeaderValue(s string) string {
	plain := true
	for i := 0; i < len(s); i++ {
		if mustEncode(s[i]) {
			plain = false
			break
		}
	}
	if plain {
		return s
	}
	out := make([]byte, 0, len(s)+16)
	for i := 0; i < len(s); i++ {
		if c := s[i]; mustEncode(c) {
			out = append(out, '%', upperHex[c>>4], upperHex[c&15])
		} else {
			out = append(out, c)
		}
	}
	return string(out)
}

func mustEncode(c byte) bool { return c <= ' ' || c >= 0x7f || c == '"' || c == '%' }

var errPercent = errors.New("schemas: broken percent-encoding in a header")

// DecodeHeaderValue undoes [EncodeHeaderValue]. Bytes that should have been encoded pass as they are.
func DecodeHeaderValue(s string) (string, error) {
	if !strings.Contains(s, "%") {
		return s, nil
	}
	out := make([]byte, 0, len(s))
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			out = append(out, s[i])
			continue
		}
		if i+2 >= len(s) {
			return "", errPercent
		}
		c, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", errPercent
		}
		out = append(out, byte(c))
		i += 2
	}
	return string(out), nil
}
