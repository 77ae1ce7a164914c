package anthropicmessages

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"net/http"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/failure"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// Stream answers a request. It is a [providers.StreamFunc].
func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
	return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
		if err := req.NeedKey(); err != nil {
			return err
		}
		resp, err := call(ctx, req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		s.Start()
		return read(s, resp.Body)
	})
}

// call sends the request, with retries, and returns a successful response. The caller closes its body.
func call(ctx context.Context, req *providers.Request) (*http.Response, error) {
	settings, err := settingsOf(req)
	if err != nil {
		return nil, err
	}
	params, err := settings.params()
	if err != nil {
		return nil, err
	}
	tap := transport.New(req)
	var resp *http.Response
	messages := anthropic.NewMessageService(
		option.WithHTTPClient(tap.Client()), option.WithBaseURL(req.Model.BaseURL), key(req),
		option.WithMaxRetries(max(0, req.MaxRetries)), option.WithResponseInto(&resp))
	var options []option.RequestOption
	if betas := settings.betas(); betas != "" {
		options = append(options, option.WithHeader("anthropic-beta", betas))
	}
	// The SDK's stream is not read. The response that it would read from is in resp.
	err = messages.NewStreaming(ctx, params, options...).Err()
	if failure, failed := tap.Failure(); failed {
		return nil, statusError(failure)
	}
	if err != nil {
		return nil, err
	}
	return resp, nil
}

// key returns the option that sends the key in the header that the provider expects.
func key(req *providers.Request) option.RequestOption {
	if req.Model.Provider == providers.GitHubCopilot {
		return option.WithAuthToken(req.APIKey)
	}
	return option.WithAPIKey(req.APIKey)
}

// statusError returns the error of a failed response.
func statusError(f transport.Failure) error {
	return failure.OfResponse(fmt.Sprintf("%d %s", f.Status, cmp.Or(f.Text(), "status code (no body)")), f)
}
