package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"strconv"
)

// Message is what a client publishes or the server delivers. Header is the header block as it is on the wire, empty
// where there is none. A tap must not change or keep it.
type Message struct {
	Subject string
	Reply   string
	Header  []byte
	Data    []byte
}

// maxMessage bounds what is read into memory for one message. It is far above every max_payload in use.
const maxMessage = 64 << 20

// frame is one protocol operation: its line, and the message it carries, if any.
type frame struct {
	op   string // the first word, in upper case
	raw  []byte // all of it, as it is passed on
	body *Message
}

// readFrame reads the next operation of either direction.
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
		return 0, fmt.Errorf("wire: %.40q is no size of a message", word)
	}
	return n, nil
}
