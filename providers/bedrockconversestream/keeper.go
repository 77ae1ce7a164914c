package bedrockconversestream

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// A keeper is the HTTP client of the SDK. It keeps the body of a successful response, and returns an empty body to the
// SDK.
type keeper struct {
	client *http.Client
	body   io.ReadCloser
}

// Do sends an attempt. It gives net/http its own copy of the request's body: the SDK closes the body as soon as there
// is a response, and net/http, which may still be sending it, would then close the connection and lose the response.
func (k *keeper) Do(r *http.Request) (*http.Response, error) {
	own, err := withOwnBody(r)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(own)
	if err == nil && resp.StatusCode < 300 {
		k.close()
		k.body, resp.Body = resp.Body, http.NoBody
	}
	return resp, err
}

func withOwnBody(r *http.Request) (*http.Request, error) {
	if r.Body == nil {
		return r, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, fmt.Errorf("body of the request: %w", err)
	}
	own := r.WithContext(r.Context())
	own.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	own.Body, err = own.GetBody()
	return own, err
}

func (k *keeper) close() {
	if k.body != nil {
		_ = k.body.Close()
	}
}
