package bedrockconversestream

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
)

// A keeper is the SDK's HTTP client. It keeps the body of a good response, and gives the SDK an empty one.
type keeper struct {
	client *http.Client
	body   io.ReadCloser
}

// Do sends an attempt. The SDK closes the request's body as soon as there is a response, and net/http, which may not be
// done with it, gives up the connection then and with it the response: so it gets a body of its own.
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
