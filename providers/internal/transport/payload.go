package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// signed is the prefix of the Authorization header of a request whose body is signed for AWS. AWS would reject another
// body.
const signed = "AWS4-"

// withPayload returns the request with the body that OnPayload returns. A body that is signed or not a JSON object is
// sent unchanged.
func (t *Tap) withPayload(r *http.Request) (*http.Request, error) {
	if t.req.OnPayload == nil || r.Body == nil || strings.HasPrefix(r.Header.Get("Authorization"), signed) {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close()
	if err != nil {
		return nil, fmt.Errorf("read the request: %w", err)
	}
	if isObject(body) {
		if body, err = t.req.OnPayload(r.Context(), body); err != nil {
			return nil, err
		}
	}
	r = r.WithContext(r.Context()) // a copy, because a RoundTripper must not modify the request
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return r, nil
}

func isObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
}
