package toolargs

import (
	"math"
	"strconv"
)

// appendJSON appends the value without white space; numbers as they were written.
func appendJSON(out []byte, v *value) []byte {
	switch v.kind {
	case kindNumber:
		return append(out, v.str...)
	case kindArray, kindObject:
		opening, closing := brackets(v)
		out = append(out, opening)
		for i := range v.elems {
			if i > 0 {
				out = append(out, ',')
			}
			if v.kind == kindObject {
				out = append(appendQuoted(out, v.elems[i].key), ':')
			}
			out = appendJSON(out, &v.elems[i].val)
		}
		return append(out, closing)
	}
	return appendScalar(out, v)
}

// appendPretty appends the value as JSON.stringify(value, null, 2) prints it. It stops when the output is longer than
// an error may quote.
func appendPretty(out []byte, v *value, indent int) []byte {
	if v.kind&(kindArray|kindObject) == 0 {
		return appendScalar(out, v)
	}
	opening, closing := brackets(v)
	out = append(out, opening)
	for i := range v.elems {
		if len(out) > maxReceived {
			return out
		}
		if i > 0 {
			out = append(out, ',')
		}
		out = appendBreak(out, indent+1)
		if v.kind == kindObject {
			out = append(appendQuoted(out, v.elems[i].key), ": "...)
		}
		out = appendPretty(out, &v.elems[i].val, indent+1)
	}
	if len(v.elems) > 0 {
		out = appendBreak(out, indent)
	}
	return append(out, closing)
}

func brackets(v *value) (opening, closing byte) {
	if v.kind == kindObject {
		return '{', '}'
	}
	return '[', ']'
}

func appendBreak(out []byte, indent int) []byte {
	out = append(out, '\n')
	for range indent {
		out = append(out, "  "...)
	}
	return out
}

// appendScalar appends null, a boolean, a string or a number. It prints a number as JavaScript does.
func appendScalar(out []byte, v *value) []byte {
	switch v.kind {
	case kindFalse:
		return append(out, "false"...)
	case kindTrue:
		return append(out, "true"...)
	case kindString:
		return appendQuoted(out, v.str)
	case kindNumber:
		if !math.IsInf(v.num, 0) {
			return append(out, formatNumber(v.num)...)
		}
	}
	return append(out, "null"...) // also for an infinite number: JSON has none
}

const lowerHex = "0123456789abcdef"

// appendQuoted appends a JSON string with the escapes of JSON.stringify, which are only the required ones.
func appendQuoted(out []byte, s string) []byte {
	out = append(out, '"')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\b':
			out = append(out, `\b`...)
		case '\f':
			out = append(out, `\f`...)
		case '\n':
			out = append(out, `\n`...)
		case '\r':
			out = append(out, `\r`...)
		case '\t':
			out = append(out, `\t`...)
		default:
			if c < ' ' {
				out = append(out, '\\', 'u', '0', '0', lowerHex[c>>4], lowerHex[c&15])
			} else {
				out = append(out, c)
			}
		}
	}
	return append(out, '"')
}

// formatNumber returns JavaScript's String(f).
func formatNumber(f float64) string {
	switch {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case f == 0:
		return "0" // also -0
	}
	if abs := math.Abs(f); abs >= 1e-6 && abs < 1e21 {
		return strconv.FormatFloat(f, 'f', -1, 64)
	}
	s := strconv.FormatFloat(f, 'e', -1, 64)
	if n := len(s); n > 3 && s[n-2] == '0' && (s[n-3] == '+' || s[n-3] == '-') {
		s = s[:n-2] + s[n-1:] // e-07 is e-7 in JavaScript
	}
	return s
}
