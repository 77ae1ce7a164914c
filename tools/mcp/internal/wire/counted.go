// Package wire limits what MCP servers and clients send, before the SDK decodes it.
package wire

import (
	"fmt"
	"io"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	// MaxMessage is the largest size of a message in bytes.
	MaxMessage = sdk.DefaultMaxEventSize

	// maxValues is the largest number of JSON values in a message. An empty tool in a list has three bytes, and takes
	// two hundred times that in memory once it is decoded.
	maxValues = 1 << 18
)

// A Framing is how messages are separated.
type Framing int

// The framings.
const (
	Whole  Framing = iota // the body is one message
	Events                // server-sent events, separated by blank lines
	Values                // JSON values one after the other
)

// Counted returns a body that counts the bytes and the JSON values of each message, and whose Read returns an error if
// a message has more than most bytes, or too many values. Bytes outside of JSON, such as comments in events, count too.
func Counted(body io.ReadCloser, framing Framing, most int) io.ReadCloser {
	return &counted{ReadCloser: body, framing: framing, most: most}
}

type counted struct {
	io.ReadCloser
	framing Framing
	most    int // bytes of a message

	size    int // of this message
	n       int
	depth   int
	quoted  bool
	escaped bool
	blank   bool // the line is empty so far
	err     error
}

// Read implements [io.Reader].
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
	case b == '\n' || b == '\r': // never inside a JSON string
		if c.framing == Events && c.blank && b == '\n' {
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
		if c.depth--; c.depth <= 0 && c.framing == Values {
			c.begin()
		}
	case b == ',':
		c.n++
	}
	c.blank = false
}

// begin resets the counts: the next byte begins a message.
func (c *counted) begin() { c.size, c.n, c.depth = 0, 0, 0 }
