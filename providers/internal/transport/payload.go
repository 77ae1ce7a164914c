package transport

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

// signed begins the authorization of a request whose body AWS is sent a signature of: another body would be refused.
const signed = "AWS4-"

// withPayload returns the request with what OnPayload makes of its body. What is no JSON object is nobody's business.
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
	r = r.WithContext(r.Context()) // a copy: the caller's is not ours to change
	r.ContentLength = int64(len(body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	r.Body, _ = r.GetBody()
	return r, nil
}

func isObject(body []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("{")) && json.Valid(body)
}
