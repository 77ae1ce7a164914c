package schemas

import "bytes"

// simple reports whether raw is an object of a few texts, whole numbers and flags, of ASCII characters without escapes,
// as the arguments of most calls are: [decodeStrict] takes those, too, at fifty times the cost. False says nothing.
func simple(raw []byte) bool {
	for _, c := range raw {
		if c < ' ' || c > '~' || c == '\\' {
			return false
		}
	}
	s := jsonScanner{text: raw}
	if !s.skip('{') {
		return false
	}
	var names [8][]byte
	for n := range names {
		if n == 0 && s.skip('}') {
			return s.pos == len(raw)
		}
		name, err := s.value()
		if err != nil || name[0] != '"' || !s.skip(':') {
			return false
		}
		for _, before := range names[:n] {
			if bytes.Equal(before, name) {
				return false
			}
		}
		names[n] = name
		s.next()
		if v, err := s.value(); err != nil || !simpleValue(v) {
			return false
		}
		if s.skip('}') {
			return s.pos == len(raw)
		}
		if !s.skip(',') {
			return false
		}
	}
	return false
}

func simpleValue(v []byte) bool {
	const most = 15 // digits of a number that is exact everywhere
	if v[0] == '"' || string(v) == "true" || string(v) == "false" || string(v) == "null" {
		return true
	}
	for _, c := range v {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(v) <= most && (v[0] != '0' || len(v) == 1)
}
