// Package wtf8 preserves unpaired UTF-16 surrogates in Go strings.
//
// JavaScript, and servers written in it, may cut a text between the two surrogates of an emoji: one delta ends in
// "\ud83d", the next begins with "\ude48". encoding/json decodes each as U+FFFD, and the emoji is lost. This package
// decodes a surrogate as three bytes of WTF-8 (https://simonsapin.github.io/wtf-8/) until the other one arrives.
package wtf8

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Text is a string that decodes unpaired surrogates in JSON as WTF-8. Streamed deltas are decoded into it, and a
// [Joiner] has to make valid UTF-8 of them before other code uses them. Null decodes as "".
type Text string

// UnmarshalJSON reads a JSON string or null.
func (t *Text) UnmarshalJSON(data []byte) error {
	if string(data) == "null" {
		*t = ""
		return nil
	}
	if len(data) == 0 || data[0] != '"' {
		return fmt.Errorf("%.20q is not a JSON string", data)
	}
	if inside, ok := plain(data); ok {
		*t = Text(inside)
		return nil
	}
	if !mayHoldSurrogate(data) {
		var s string
		err := json.Unmarshal(data, &s)
		*t = Text(s)
		return err
	}
	if !json.Valid(data) {
		return fmt.Errorf("%.20q is not a JSON string", data)
	}
	*t = Text(unquote(data[1 : len(data)-1]))
	return nil
}

// plain returns the content of a JSON string that has no escapes, as most strings. ok is false for other strings.
func plain(data []byte) (inside []byte, ok bool) {
	if len(data) < 2 || data[len(data)-1] != '"' {
		return nil, false
	}
	inside = data[1 : len(data)-1]
	for _, c := range inside {
		if c < ' ' || c == '"' || c == '\\' {
			return nil, false
		}
	}
	return inside, utf8.Valid(inside)
}

// mayHoldSurrogate reports whether data contains \ud or \uD, with which every escape of a surrogate begins.
func mayHoldSurrogate(data []byte) bool {
	for i := 0; i+2 < len(data); i++ {
		if data[i] == '\\' && data[i+1] == 'u' && data[i+2]|0x20 == 'd' {
			return true
		}
	}
	return false
}

// unquote resolves the escapes in the content of a valid JSON string.
func unquote(in []byte) string {
	out := make([]byte, 0, len(in))
	for i := 0; i < len(in); i++ {
		if in[i] != '\\' {
			out = append(out, in[i])
			continue
		}
		i++
		if in[i] != 'u' {
			out = append(out, unescaped(in[i]))
			continue
		}
		unit := hex(in[i+1:])
		i += 4
		if utf16.IsSurrogate(unit) && i+6 < len(in) && in[i+1] == '\\' && in[i+2] == 'u' {
			if r := utf16.DecodeRune(unit, hex(in[i+3:])); r != utf8.RuneError {
				out = utf8.AppendRune(out, r)
				i += 6
				continue
			}
		}
		out = appendUnit(out, unit)
	}
	return string(out)
}

func unescaped(c byte) byte {
	switch c {
	case 'b':
		return '\b'
	case 'f':
		return '\f'
	case 'n':
		return '\n'
	case 'r':
		return '\r'
	case 't':
		return '\t'
	}
	return c
}

func hex(digits []byte) rune {
	n, _ := strconv.ParseUint(string(digits[:4]), 16, 16) // the JSON is valid
	return rune(n)
}

// appendUnit appends a code unit as three bytes if it is a surrogate, else as UTF-8.
func appendUnit(out []byte, unit rune) []byte {
	if utf16.IsSurrogate(unit) {
		return append(out, 0xED, 0x80|byte(unit>>6&0x3F), 0x80|byte(unit&0x3F))
	}
	return utf8.AppendRune(out, unit)
}

// surrogateAt returns the surrogate that s begins with, or 0.
func surrogateAt(s string) rune {
	if len(s) < 3 || s[0] != 0xED || s[1] < 0xA0 || s[1] > 0xBF || s[2]&0xC0 != 0x80 {
		return 0
	}
	return 0xD000 | rune(s[1]&0x3F)<<6 | rune(s[2]&0x3F)
}

func isHigh(r rune) bool { return r >= 0xD800 && r < 0xDC00 }

// Clean returns s as valid UTF-8: adjacent surrogates become their character, unpaired ones are removed, and any other
// invalid byte becomes U+FFFD. Vendors refuse requests that contain unpaired surrogates.
func Clean(s string) string { return toValid(s, "") }

// toValid returns s as valid UTF-8, with unpaired in place of each unpaired surrogate.
func toValid(s, unpaired string) string {
	if utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for len(s) > 0 {
		half := surrogateAt(s)
		if half == 0 {
			r, size := utf8.DecodeRuneInString(s)
			b.WriteRune(r)
			s = s[size:]
			continue
		}
		s = s[3:]
		if r := utf16.DecodeRune(half, surrogateAt(s)); r != utf8.RuneError {
			b.WriteRune(r)
			s = s[3:]
		} else {
			b.WriteString(unpaired)
		}
	}
	return b.String()
}

// A Joiner turns the deltas of one text into valid UTF-8. If a delta ends in a high surrogate, the surrogate is
// buffered and returned with the next delta. The zero value is ready to use.
type Joiner struct {
	held string // the buffered surrogate, or ""
}

// Add returns the next delta in valid UTF-8, without a surrogate at its end and with the one buffered before.
func (j *Joiner) Add(delta string) string {
	if j.held == "" && strings.IndexByte(delta, 0xED) < 0 && utf8.ValidString(delta) {
		return delta
	}
	delta = j.held + delta
	j.held = ""
	if n := len(delta) - 3; n >= 0 && isHigh(surrogateAt(delta[n:])) {
		j.held, delta = delta[n:], delta[:n]
	}
	return toValid(delta, "\uFFFD")
}

// Rest returns the end of the text when no delta follows: U+FFFD if a surrogate is buffered, or else "".
func (j *Joiner) Rest() string {
	if j.held == "" {
		return ""
	}
	j.held = ""
	return "\uFFFD"
}
