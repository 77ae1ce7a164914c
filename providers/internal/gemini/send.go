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

// Play makes the request to a URL, with these headers, and reads the reply. It is made once: whoever asks decides
// whether to ask again.
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
		_, _ = io.Copy(io.Discard, resp.Body) // the tap keeps it
		f, _ := tap.Failure()
		return failureError(f)
	}
	s.Start()
	return newReader(s, req.Time().UnixMilli()).Read(resp.Body)
}

// failureError is the body of a failing response; what is no JSON is put in the form that the vendor's errors have.
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
