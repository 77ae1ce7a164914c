package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers/internal/chat"
	"github.com/loopbus/loopbus/providers/internal/held"
)

var errVendor = errors.New("the vendor's error")

func TestRead(t *testing.T) {
	broken := iotest.ErrReader(errVendor)
	for name, tc := range map[string]struct {
		body  io.Reader
		want  []string
		ended bool
		err   string
	}{
		"ended": {strings.NewReader("data: 1\n\ndata: 2\n\ndata: [DONE]\n\ndata: 3\n\n"),
			[]string{"1", "2"}, true, ""},
		"not ended": {strings.NewReader("data: 1\n\n"), []string{"1"}, false, ""},
		"nothing":   {strings.NewReader(""), nil, false, ""},
		"heartbeats": {strings.NewReader(": hi\n\nevent: ping\n\nretry: 5\n\ndata:\n\ndata: 1\n\n"),
			[]string{"1"}, false, ""},
		"no blank line":   {strings.NewReader("data: 1\n\ndata: 2"), []string{"1", "2"}, false, ""},
		"cut in an event": {strings.NewReader("data: 1\n\ndata: {\"a\":"), []string{"1"}, false, ""},
		"malformed": {strings.NewReader("data: 1\n\ndata: {\"a\":\n\ndata: 2\n\n"), []string{"1"}, false,
			"malformed chunk"},
		"JSON and no stream": {strings.NewReader("{\"a\":\n1}\n"), []string{"{\"a\":\n1}\n"}, false, ""},
		"a page":             {strings.NewReader("<html>\n</html>\n"), nil, false, ""},
		"an error of the body": {io.MultiReader(strings.NewReader("data: 1\n\n"), broken), []string{"1"}, false,
			errVendor.Error()},
		"an error of the callback": {strings.NewReader("data: 1\n\ndata: \"stop\"\n\ndata: 2\n\n"), []string{"1"}, false,
			"stop"},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			ended, err := chat.Read(tc.body, held.New(1<<30, 0).Share(context.Background(), "", nil), func(data []byte) error {
				var v any
				if err := chat.Decode(data, &v); err != nil {
					return err
				}
				if v == "stop" {
					return errors.New("stop")
				}
				got = append(got, string(data))
				return nil
			})
			if d := cmp.Diff(tc.want, got); d != "" || ended != tc.ended {
				t.Errorf("ended %t, chunks (-want +got):\n%s", ended, d)
			}
			if (err != nil) != (tc.err != "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
		})
	}
}

func TestDecodeIgnoresMembersOfTheWrongType(t *testing.T) {
	var got struct {
		N    int            `json:"n"`
		Text chat.Text      `json:"text"`
		Args chat.Arguments `json:"args"`
		Last string         `json:"last"`
	}
	if err := chat.Decode([]byte(`{"n":"one","text":{"a":1},"args":{"p":[1, 2]},"last":"here"}`), &got); err != nil {
		t.Fatal(err)
	}
	if got.N != 0 || got.Text != "" || got.Args != `{"p":[1, 2]}` || got.Last != "here" {
		t.Errorf("%+v", got)
	}
	var syntax *json.SyntaxError
	if err := chat.Decode([]byte(`{"n":`), &got); !errors.As(err, &syntax) {
		t.Errorf("error %v of broken JSON", err)
	}
}
