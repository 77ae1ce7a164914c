package glob

import (
	"context"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// components are the parts of a pattern between its slashes. The library matches one with one name of a path, which has
// at most 255 bytes on any usual file system: so a match can be interrupted between them.
type components []string

// anyDepth is the component that stands for any number of directories.
const anyDepth = "**"

// split splits a pattern without braces. A slash in a class separates nothing, and matches nothing.
func split(pattern string) components {
	var list components
	start, class := 0, false
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && !class && strings.HasPrefix(pattern[i+1:], "/"):
			list = append(list, pattern[start:i])
			i++
			start = i + 1
		case c == '\\':
			i++
		case class:
			class = c != ']'
		case c == '[':
			class = true
		case c == '/':
			list = append(list, pattern[start:i])
			start = i + 1
		}
	}
	list = append(list, pattern[start:])
	if n := len(list); n > 2 && list[n-2] == anyDepth && list[n-1] == "" { // dir/**/ is dir, as in the library
		list = list[:n-2]
	}
	return list
}

// match reports whether the components match those of a path. When a component does not match, it lets the last ** take
// one more directory: an earlier ** could only take what the last one can take as well.
func (c components) match(ctx context.Context, path string) bool {
	type place struct {
		at   int    // in the components
		rest string // of the path
		left bool   // whether rest has a component, perhaps an empty one
	}
	now, again := place{rest: path, left: true}, place{}
	for {
		switch {
		case now.at == len(c):
			if !now.left {
				return true
			}
		case c[now.at] == anyDepth:
			now.at++
			again = now
			continue
		case now.left:
			name, rest, left := strings.Cut(now.rest, "/")
			if doublestar.MatchUnvalidated(c[now.at], name) {
				now = place{now.at + 1, rest, left}
				continue
			}
		}
		if !again.left || ctx.Err() != nil {
			return false
		}
		_, again.rest, again.left = strings.Cut(again.rest, "/")
		now = again
	}
}
