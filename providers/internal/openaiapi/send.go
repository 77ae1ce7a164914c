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

// Send posts a body for a streamed answer to a path below the base URL, with these options of the SDK, and returns the
// response if it is a good one. The caller closes its body.
//
// Whatever the path, it is the SDK's service of responses that sends. The service of chat completions sends in the same
// way, but is in the SDK's first package, with which the types of all the vendor's services come into a program, 14 MB
// (decision 92).
func Send(ctx context.Context, tap *transport.Tap, path string, body any, opts []option.RequestOption,
) (*http.Response, error) {
	raw, err := schemas.Marshal(body)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	opts = append(opts, option.WithMiddleware(to(path)), option.WithResponseBodyInto(&resp))
	service := responses.NewResponseService(opts...)
	params := param.Override[responses.ResponseNewParams](json.RawMessage(raw))
	if err := service.NewStreaming(ctx, params).Err(); err != nil {
		return nil, FromTap(tap, err)
	}
	return resp, nil
}

// to sends a request to this path instead of that of its service. The SDK gives every attempt a request of its own.
func to(path string) option.Middleware {
	return func(req *http.Request, next option.MiddlewareNext) (*http.Response, error) {
		req.URL = req.URL.ResolveReference(&url.URL{Path: path, RawQuery: req.URL.RawQuery})
		return next(req)
	}
}
