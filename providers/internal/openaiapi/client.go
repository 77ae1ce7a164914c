// Package openaiapi is the code that the API packages on OpenAI's SDK share: it configures the SDK, sends requests with
// it, and makes errors of failed responses.
package openaiapi

import (
	"github.com/openai/openai-go/v3/option"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/transport"
)

// Options returns the options for a service of the SDK that serves the request: base URL, key, HTTP client and retries.
// Unlike the SDK's Client, its services do not read the environment.
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
