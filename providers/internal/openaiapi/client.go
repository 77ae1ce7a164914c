// Package openaiapi is what the packages on OpenAI's SDK have in common: how the SDK is set up, how it sends a request,
// and what its failures are called.
package openaiapi

import (
	"github.com/openai/openai-go/v3/option"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
)

// Options returns the options that make a service of the SDK serve the request: where, with which key, over which
// transport, and with how many attempts. The SDK's services read no environment, unlike its Client.
func Options(req *providers.Request, tap *transport.Tap) []option.RequestOption {
	opts := []option.RequestOption{
		option.WithBaseURL(req.Model.BaseURL),
		option.WithAPIKey(req.APIKey),
		option.WithHTTPClient(tap.Client()),
		option.WithMaxRetries(max(0, req.MaxRetries)),
	}
	if req.MaxRetryDelay > 0 {
		opts = append(opts, option.WithMaxRetryDelay(req.MaxRetryDelay))
	}
	return opts
}
