package wire

import (
	"bytes"
	"encoding/json"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// A Sift returns what the SDK gets instead of a message: the same, another one, or nil for none. An error ends the
// connection.
type Sift func(jsonrpc.Message) (jsonrpc.Message, error)

// Text returns what is left of the text of a message or of a batch, nil if nothing, and whether it is the same. It
// leaves a text alone that is neither.
func (s Sift) Text(text []byte) (left []byte, same bool, err error) {
	var batch []json.RawMessage
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) || json.Unmarshal(text, &batch) != nil {
		return s.one(text)
	}
	var rest []json.RawMessage
	same = true
	for _, text := range batch {
		one, unchanged, err := s.one(text)
		if err != nil {
			return nil, false, err
		}
		if same = same && unchanged; one != nil {
			rest = append(rest, one)
		}
	}
	if same {
		return text, true, nil
	}
	if rest != nil {
		left, err = json.Marshal(rest)
	}
	return left, false, err
}

func (s Sift) one(text []byte) (left []byte, same bool, err error) {
	m, err := jsonrpc.DecodeMessage(text)
	if err != nil {
		return text, true, nil //nolint:nilerr // the SDK says what is wrong
	}
	got, err := s(m)
	switch {
	case err != nil, got == nil:
		return nil, false, err
	case got == m:
		return text, true, nil
	}
	left, err = jsonrpc.EncodeMessage(got)
	return left, false, err
}
