package mcp

import (
	"fmt"
	"io"
)

// maxValues is how many JSON values a message of a server by HTTP may have. A list of empty tools, which is three bytes
// for each, takes two hundred times that once it is decoded.
const maxValues = 1 << 18

// A counted body counts the values of the JSON that is read, in all of it or, of a stream of events, in each of them,
// and ends with an error where there are too many.
type counted struct {
	io.ReadCloser
	events bool // what a blank line ends is an event

	n       int
	quoted  bool
	escaped bool
	blank   bool // nothing is in the line yet
}

// Read reads on.
func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	for _, b := range p[:n] {
		c.count(b)
	}
	if c.n > maxValues {
		return 0, fmt.Errorf("a message of the server has more than %d values", maxValues)
	}
	return n, err
}

func (c *counted) count(b byte) {
	switch {
	case b == '\n' || b == '\r': // in no string of JSON
		if c.events && c.blank && b == '\n' && c.n <= maxValues {
			c.n = 0
		}
		c.quoted, c.escaped, c.blank = false, false, b == '\n' || c.blank
		return
	case c.escaped:
		c.escaped = false
	case c.quoted && b == '\\':
		c.escaped = true
	case b == '"':
		c.quoted = !c.quoted
	case !c.quoted && (b == ',' || b == '[' || b == '{'):
		c.n++
	}
	c.blank = false
}
