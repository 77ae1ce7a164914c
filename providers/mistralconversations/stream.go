package mistralconversations

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// API is the id of the API in the catalogue.
const API = "mistral-conversations"

// Stream answers a request, see [providers.StreamFunc].
func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
	return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
		resp, err := send(ctx, req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		s.Start()
		return newReader(s).read(resp.Body)
	})
}

// send posts the request and returns the response if it is successful. The caller closes its body.
func send(ctx context.Context, req *providers.Request) (*http.Response, error) {
	if err := req.NeedKey(); err != nil {
		return nil, err
	}
	body, err := newBody(req)
	if err != nil {
		return nil, err
	}
	raw, err := schemas.Marshal(body)
	if err != nil {
		return nil, err
	}
	url := strings.TrimSuffix(req.Model.BaseURL, "/") + "/v1/chat/completions"
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	post.Header.Set("Content-Type", "application/json")
	post.Header.Set("Accept", "text/event-stream")
	post.Header.Set("Authorization", "Bearer "+req.APIKey)
	if req.SessionID != "" {
		post.Header.Set("X-Affinity", req.SessionID) // routes the request to the server with the session's cache
	}
	tap := transport.New(req)
	resp, err := tap.Client().Do(post)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode >= http.StatusBadRequest {
		_, _ = io.Copy(io.Discard, resp.Body) // the tap keeps the body
		_ = resp.Body.Close()
		f, _ := tap.Failure()
		return nil, failureError(f)
	}
	return resp, nil
}

// maxErrorText is how many bytes of a failed response's body an error text contains.
const maxErrorText = 4000

// failureError returns the error of a failed response.
func failureError(f transport.Failure) error {
	text := f.Text()
	if text == "" {
		text = "status code (no body)"
	}
	if n := len(text); n > maxErrorText {
		cut := maxErrorText
		for !utf8.RuneStart(text[cut]) {
			cut--
		}
		text = fmt.Sprintf("%s... [truncated %d chars]", text[:cut], utf8.RuneCountInString(text[cut:]))
	}
	return failure.OfResponse(fmt.Sprintf("Mistral API error (%d): %s", f.Status, text), f)
}
