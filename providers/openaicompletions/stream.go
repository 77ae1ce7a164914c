package openaicompletions

import (
	"context"
	"iter"
	"net/http"
	"strings"

	"github.com/openai/openai-go/v3/option"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// API is the id of the API in the catalogue.
const API = "openai-completions"

// Stream answers a request, see [providers.StreamFunc].
func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
	return assemble.Run(ctx, req, func(inner context.Context, s *assemble.Stream) error {
		resp, err := send(inner, req)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		s.Start()
		err = newReader(s, req.Model).read(resp.Body)
		if ctx.Err() != nil {
			s.EndAll() // an aborted reply has no open blocks
		}
		return err
	})
}

// send posts the request and returns the response if it is successful. The caller closes its body.
func send(ctx context.Context, req *providers.Request) (*http.Response, error) {
	if err := req.NeedKey(); err != nil {
		return nil, err
	}
	compat, err := compatOf(req.Model)
	if err != nil {
		return nil, err
	}
	body, err := newBody(req, &compat)
	if err != nil {
		return nil, err
	}
	tap := transport.New(req)
	opts, err := options(req, &compat, tap)
	if err != nil {
		return nil, err
	}
	return openaiapi.Send(ctx, tap, "chat/completions", body, opts)
}

// options returns the SDK's options for sending the request.
func options(req *providers.Request, c *Compat, tap *transport.Tap) ([]option.RequestOption, error) {
	opts := openaiapi.Options(req, tap)
	if c.SendSessionAffinityHeaders && req.SessionID != "" && req.Retention() != providers.CacheNone {
		for _, name := range []string{"session_id", "x-client-request-id", "x-session-affinity"} {
			opts = append(opts, option.WithHeader(name, req.SessionID))
		}
	}
	if !isCloudflare(req.Model) {
		return opts, nil
	}
	url, err := cloudflareURL(req)
	if err != nil {
		return nil, err
	}
	opts = append(opts, option.WithBaseURL(url))
	if req.Model.Provider == cloudflareGateway {
		// the gateway has a key of its own, in addition to the vendor's
		opts = append(opts, option.WithHeaderDel("authorization"), option.WithAPIKey(""),
			option.WithHeader("cf-aig-authorization", "Bearer "+req.APIKey))
	}
	return opts, nil
}

// isAt reports whether the model's base URL contains one of the hosts.
func isAt(m *providers.Model, hosts ...string) bool {
	for _, host := range hosts {
		if strings.Contains(m.BaseURL, host) {
			return true
		}
	}
	return false
}
