package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// Play posts the request to url with these headers and reads the reply into s. It does not retry; its callers do not
// either, so the caller of the model decides about retries.
func Play(ctx context.Context, s *assemble.Stream, req *providers.Request, url string, header http.Header) error {
	body, err := newBody(req)
	if err != nil {
		return err
	}
	raw, err := schemas.Marshal(body)
	if err != nil {
		return err
	}
	post, err := http.NewRequestWithContext(ctx, http.MethodPost, url+"?alt=sse", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	post.Header = header
	post.Header.Set("Content-Type", "application/json")
	tap := transport.New(req)
	resp, err := tap.Client().Do(post)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode >= http.StatusBadRequest {
		_, _ = io.Copy(io.Discard, resp.Body) // the tap keeps the body
		f, _ := tap.Failure()
		return failureError(f)
	}
	s.Start()
	return newReader(s, req.Time().UnixMilli()).read(resp.Body)
}

// failureError returns the error of a failed response. Its text is the body; a body that is not JSON is wrapped in the
// form of the vendor's errors.
func failureError(f transport.Failure) error {
	text := f.Text()
	if json.Valid([]byte(text)) {
		return failure.OfResponse(text, f)
	}
	var e struct {
		Error struct {
			Message string `json:"message"`
			Code    int    `json:"code"`
			Status  string `json:"status"`
		} `json:"error"`
	}
	e.Error.Message, e.Error.Code, e.Error.Status = text, f.Status, http.StatusText(f.Status)
	raw, err := schemas.Marshal(e)
	if err != nil {
		return err
	}
	return failure.OfResponse(string(raw), f)
}
