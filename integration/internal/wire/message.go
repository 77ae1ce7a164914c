package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Message is a message that a client publishes or the server delivers. Header is the header block as it is on the wire,
// or empty. A tap must not modify or keep the message.
type Message struct {
	Subject string
	Reply   string
	Header  []byte
	Data    []byte
}

// maxMessage bounds what is read into memory for one message. It is far above every max_payload in use.
const maxMessage = 64 << 20

// frame is one protocol operation: its line, and its message, if it has one.
type frame struct {
	op   string // the first word, in upper case
	raw  []byte // the complete operation, as it is forwarded
	body *Message
}

// readFrame reads the next operation. It works for both directions.
func readFrame(r *bufio.Reader) (frame, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return frame{}, err
	}
	words := bytes.Fields(line)
	if len(words) == 0 {
		return frame{raw: line}, nil
	}
	f := frame{op: string(bytes.ToUpper(words[0])), raw: line}
	switch f.op {
	case "PUB", "HPUB":
		return f.withBody(r, words[1:])
	case "MSG", "HMSG":
		if len(words) < 3 {
			return f, fmt.Errorf("wire: %.60q has no subscription id", line)
		}
		return f.withBody(r, append(words[1:2], words[3:]...)) // without the subscription's id
	}
	return f, nil
}

// withBody reads the payload that follows a line with the arguments subject [reply] [header size] size.
func (f frame) withBody(r *bufio.Reader, args [][]byte) (frame, error) {
	sizes := 1
	if f.op[0] == 'H' {
		sizes = 2
	}
	if n := len(args) - sizes; n != 1 && n != 2 {
		return f, fmt.Errorf("wire: %s has %d arguments", f.op, len(args))
	}
	f.body = &Message{Subject: string(args[0])}
	if len(args) == sizes+2 {
		f.body.Reply = string(args[1])
	}
	total, err := size(args[len(args)-1])
	if err != nil {
		return f, err
	}
	header := 0
	if sizes == 2 {
		if header, err = size(args[len(args)-2]); err != nil || header > total {
			return f, fmt.Errorf("wire: %s with a header of %q bytes of %d", f.op, args[len(args)-2], total)
		}
	}
	line := len(f.raw)
	f.raw = append(f.raw, make([]byte, total+len("\r\n"))...)
	if _, err := io.ReadFull(r, f.raw[line:]); err != nil {
		return f, err
	}
	f.body.Header, f.body.Data = f.raw[line:line+header], f.raw[line+header:line+total]
	return f, nil
}

func size(word []byte) (int, error) {
	n, err := strconv.Atoi(string(word))
	if err != nil || n < 0 || n > maxMessage {
		return 0, fmt.Errorf("wire: %.40q is not a valid message size", word)
	}
	return n, nil
}
