package toolargs

import (
	"math"
	"math/big"
	"strconv"
	"strings"
)

// jsSpace is what JavaScript's trim and Number treat as white space.
const jsSpace = "\t\n\v\f\r " +
	"\u00a0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000\ufeff"

// parseNumber parses text as JavaScript's Number does: with white space around, ".5", "5.", "1e3", "0x10". It refuses
// blank text and numbers that are not finite.
func parseNumber(text string) (float64, bool) {
	text = strings.Trim(text, jsSpace)
	if len(text) > 2 && text[0] == '0' {
		if base := radix(text[1]); base != 0 {
			return parseRadix(text[2:], base)
		}
	}
	if !isDecimal(text) {
		return 0, false
	}
	f, err := strconv.ParseFloat(text, 64)
	return f, err == nil
}

func radix(c byte) int {
	switch c {
	case 'x', 'X':
		return 16
	case 'o', 'O':
		return 8
	case 'b', 'B':
		return 2
	}
	return 0
}

func parseRadix(digits string, base int) (float64, bool) {
	if strings.ContainsAny(digits, "+-_") { // SetString would accept them
		return 0, false
	}
	n, ok := new(big.Int).SetString(digits, base)
	if !ok {
		return 0, false
	}
	f, _ := new(big.Float).SetInt(n).Float64()
	return f, !math.IsInf(f, 0)
}

// isDecimal reports whether s is a decimal literal of JavaScript: one that ParseFloat accepts, except for words,
// underscores and hexadecimal floats.
func isDecimal(s string) bool {
	s = strings.TrimLeft(s[:min(1, len(s))], "+-") + s[min(1, len(s)):]
	digits := 0
	for s != "" && isDigit(s[0]) {
		s, digits = s[1:], digits+1
	}
	if s != "" && s[0] == '.' {
		for s = s[1:]; s != "" && isDigit(s[0]); s = s[1:] {
			digits++
		}
	}
	if digits == 0 || s == "" {
		return digits > 0
	}
	if s[0] != 'e' && s[0] != 'E' {
		return false
	}
	s = s[1:]
	if s != "" && (s[0] == '+' || s[0] == '-') {
		s = s[1:]
	}
	return s != "" && strings.Trim(s, "0123456789") == ""
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// isInteger does what JavaScript's Number.isInteger does.
func isInteger(f float64) bool { return !math.IsInf(f, 0) && math.Trunc(f) == f }

// isMultiple has the tolerance of the reference implementation for fractions that binary floating point cannot
// represent.
func isMultiple(f, of float64) bool {
	const tolerance = 1e-10
	if math.IsInf(f, 0) || isInteger(f) && math.Mod(1/of, 1) == 0 {
		return true
	}
	rest := math.Mod(f, of)
	return min(math.Abs(rest), math.Abs(rest-of), math.Abs(rest+of)) < tolerance
}
