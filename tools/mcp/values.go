package mcp

import (
	"fmt"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// maxMessage is how many bytes a message may have, unpacked.
	maxMessage = sdk.DefaultMaxEventSize

	// maxValues is how many JSON values a message may have. A list of empty tools, which is three bytes for each, takes
	// two hundred times that once it is decoded.
	maxValues = 1 << 18
)

// framing says where one message ends and the next one begins.
type framing int

const (
	framedWhole  framing = iota // all of it is one message
	framedEvents                // server-sent events, each of which a blank line ends
	framedValues                // JSON values, one after the other
)

// A counted body counts the bytes and the JSON values of each message that is read, and ends with an error where there
// are too many. The bytes of what is no JSON, such as the comments of events, count too.
type counted struct {
	io.ReadCloser
	framing framing
	most    int // bytes of a message

	size    int // of this message
	n       int
	depth   int
	quoted  bool
	escaped bool
	blank   bool // nothing is in the line yet
	err     error
}

// Read reads on.
func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	n, err := c.ReadCloser.Read(p)
	for _, b := range p[:n] {
		if c.count(b); c.n > maxValues {
			c.err = fmt.Errorf("a message has more than %d values", maxValues)
		} else if c.size > c.most {
			c.err = fmt.Errorf("a message has more than %d bytes", c.most)
		}
		if c.err != nil {
			return 0, c.err
		}
	}
	return n, err
}

func (c *counted) count(b byte) {
	c.size++
	switch {
	case b == '\n' || b == '\r': // in no string of JSON
		if c.framing == framedEvents && c.blank && b == '\n' {
			c.begin()
		}
		c.quoted, c.escaped, c.blank = false, false, b == '\n' || c.blank
		return
	case c.escaped:
		c.escaped = false
	case c.quoted && b == '\\':
		c.escaped = true
	case b == '"':
		c.quoted = !c.quoted
	case c.quoted:
	case b == '[' || b == '{':
		c.n++
		c.depth++
	case b == ']' || b == '}':
		if c.depth--; c.depth <= 0 && c.framing == framedValues {
			c.begin()
		}
	case b == ',':
		c.n++
	}
	c.blank = false
}

// begin has the next byte begin a message.
func (c *counted) begin() { c.size, c.n, c.depth = 0, 0, 0 }
