package wire

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// Events keep everything but the messages that sift takes or replaces, however they are cut.
func TestEventsAreSifted(t *testing.T) {
	t.Parallel()
	errBad := errors.New("bad")
	sift := func(m jsonrpc.Message) (jsonrpc.Message, error) {
		r, ok := m.(*jsonrpc.Request)
		switch {
		case !ok:
			return m, nil
		case r.Method == "drop":
			return nil, nil
		case r.Method == "bad":
			return nil, errBad
		}
		return &jsonrpc.Request{Method: "new"}, nil
	}
	const drop, old, result = `{"jsonrpc":"2.0","method":"drop"}`, `{"jsonrpc":"2.0","method":"old"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`
	const replaced = `data: {"jsonrpc":"2.0","method":"new"}` + "\n"
	long := `{"jsonrpc":"2.0","id":1,"result":{"a":"` + strings.Repeat("x", 100<<10) + `"}}`
	for name, c := range map[string]struct {
		in, out string
		err     error
	}{
		"nothing":               {in: "", out: ""},
		"a result":              {in: "id: 1\ndata: " + result + "\n\n", out: "id: 1\ndata: " + result + "\n\n"},
		"a long result":         {in: "data:" + long + "\n\n", out: "data:" + long + "\n\n"},
		"one that is dropped":   {in: "id: 1\r\ndata: " + drop + "\r\n\r\n", out: "id: 1\r\n\r\n"},
		"one that is replaced":  {in: "retry: 1\ndata: " + old + "\n\n", out: replaced + "retry: 1\n\n"},
		"in lines":              {in: "data: {\ndata:" + old[1:] + "\n: x\n\n", out: replaced + ": x\n\n"},
		"one after the other":   {in: "data: " + drop + "\n\ndata: " + result + "\n\n", out: "\ndata: " + result + "\n\n"},
		"the end of the stream": {in: "\n\ndata: " + old, out: "\n\n" + replaced},
		"of another name":       {in: "event: x\ndata: " + old + "\n\n", out: "event: x\ndata: " + old + "\n\n"},
		"of the usual name":     {in: "event: message\ndata: " + old + "\n\n", out: replaced + "event: message\n\n"},
		"no message":            {in: "data: {}\n\nfoo\n\ndata\n\n", out: "data: {}\n\nfoo\n\ndata\n\n"},
		"an error": {in: ":\n\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"bad\"}\n\n:\n\n", out: ":\n\n",
			err: errBad},
	} {
		for _, in := range []io.Reader{strings.NewReader(c.in), iotest.OneByteReader(strings.NewReader(c.in)),
			iotest.DataErrReader(strings.NewReader(c.in))} {
			got, err := io.ReadAll(Sifted(io.NopCloser(in), sift))
			if string(got) != c.out || !errors.Is(err, c.err) {
				t.Errorf("%s: %.200q, %v", name, got, err)
			}
		}
	}
	broken := io.MultiReader(strings.NewReader("data: "+old), iotest.ErrReader(errBad))
	if got, err := io.ReadAll(Sifted(io.NopCloser(broken), sift)); len(got) > 0 || !errors.Is(err, errBad) {
		t.Errorf("a broken stream: %q, %v", got, err)
	}
}
