package schemas

import (
	"errors"
	"strconv"
	"strings"
)

// headerMap is a NATS header.
type headerMap map[string][]string

// set adds a header in the percent-encoding of the NATS protocol binding. It leaves out empty values: CloudEvents has
// no empty attributes.
func (h headerMap) set(key, value string) {
	if value != "" {
		h[key] = []string{EncodeHeaderValue(value)}
	}
}

const upperHex = "0123456789ABCDEF"

// EncodeHeaderValue percent-encodes what the binding wants encoded: space, double quote, percent and everything outside
// printable ASCII, byte for byte of its UTF-8.
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
