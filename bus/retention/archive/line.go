package archive

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// line is a line of the file: one of its members is there.
type line struct {
	Archive *opening `json:"archive,omitempty"`
	Payload *payload `json:"payload,omitempty"`
	Message *message `json:"message,omitempty"`
	End     *Summary `json:"end,omitempty"`
}

type opening struct {
	Version  int       `json:"version"`
	Session  string    `json:"session"`
	Archived time.Time `json:"archived"`
}

type payload struct {
	Ref  string `json:"ref"`
	Data []byte `json:"data"`
}

// message is a message of the log. Batch is its payload where that is JSON without line breaks, byte for byte; Raw is
// it where it is not.
type message struct {
	Header map[string][]string `json:"header"`
	Batch  json.RawMessage     `json:"batch,omitempty"`
	Raw    []byte              `json:"raw,omitempty"`
}

func (m *message) body() []byte {
	if m.Batch != nil {
		return m.Batch
	}
	return m.Raw
}

func messageOf(m eventstore.Message) *message {
	header := maps.Clone(m.Header)
	maps.DeleteFunc(header, func(key string, _ []string) bool {
		return strings.HasPrefix(key, "Nats-") || key == schemas.HeaderRestore
	})
	return newMessage(header, m.Payload)
}

func newMessage(header map[string][]string, body []byte) *message {
	var compact bytes.Buffer
	if json.Compact(&compact, body) == nil && bytes.Equal(compact.Bytes(), body) {
		return &message{Header: header, Batch: body}
	}
	return &message{Header: header, Raw: body}
}

// encoder returns what writes lines.
func encoder(to io.Writer) *json.Encoder {
	lines := json.NewEncoder(to)
	lines.SetEscapeHTML(false)
	return lines
}

// errOther is the error of a file that says more than what is checked. The hashes say nothing about the rest.
var errOther = errors.New("other programs would find more in it than what was archived")

// parse returns the line that a text is. It must be the text of that line, byte for byte, because readers of JSON
// differ in what they take for a member: one that is there twice, is written in another case, or is not known. The
// error of any other text comes with what was understood.
func parse(text []byte) (l line, err error) {
	if err := json.Unmarshal(text, &l); err != nil {
		return l, err
	}
	switch {
	case l.Archive != nil:
		l = line{Archive: l.Archive}
	case l.Payload != nil:
		l = line{Payload: l.Payload}
	case l.Message != nil:
		l = line{Message: newMessage(l.Message.Header, l.Message.body())}
	default:
		l = line{End: l.End}
	}
	var written bytes.Buffer
	if err := encoder(&written).Encode(l); err != nil {
		return l, err
	}
	want := bytes.TrimSuffix(written.Bytes(), []byte("\n"))
	if bytes.Equal(text, want) {
		return l, nil
	}
	at := 0
	for at < min(len(text), len(want)) && text[at] == want[at] {
		at++
	}
	return l, fmt.Errorf("%w: it has %.60q where it should have %.60q", errOther, text[at:], want[at:])
}
