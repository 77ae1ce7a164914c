package openaiapi

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/responses"

	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// Send posts body to a path below the base URL and requests a streamed reply. It returns the response if it is
// successful; the caller closes its body. Otherwise the error is as [FromTap] returns it.
//
// Send uses the SDK's responses service for every path. The chat completions service sends in the same way, but is in
// the SDK's main package, which links the types of all the vendor's services into a program, 14 MB (decision 92).
func Send(ctx context.Context, tap *transport.Tap, path string, body any, opts []option.RequestOption,
) (*http.Response, error) {
	raw, err := schemas.Marshal(body)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	opts = append(opts, option.WithMiddleware(withPath(path)), option.WithResponseBodyInto(&resp))
	service := responses.NewResponseService(opts...)
	params := param.Override[responses.ResponseNewParams](json.RawMessage(raw))
	if err := service.NewStreaming(ctx, params).Err(); err != nil {
		return nil, FromTap(tap, err)
	}
	return resp, nil
}

// withPath returns a middleware that sends a request to path instead of the path of its service. It may change the
// request because the SDK creates one for each attempt.
func withPath(path string) option.Middleware {
	return func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		req.URL = req.URL.ResolveReference(&url.URL{Path: path, RawQuery: req.URL.RawQuery})
		return next(req)
	}
}
