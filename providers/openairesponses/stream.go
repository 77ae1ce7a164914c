// Package openairesponses implements OpenAI's Responses API with OpenAI's SDK.
package openairesponses

import (
	"context"
	"iter"

	"github.com/openai/openai-go/v3/option"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/providers/internal/responses"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// API is the id of the API in the catalogue.
const API = "openai-responses"

// Compat holds the compat flags of a model.
type Compat struct {
	SendSessionIDHeader        *bool `json:"sendSessionIdHeader"`        // nil is true
	SupportsLongCacheRetention *bool `json:"supportsLongCacheRetention"` // nil is true
}

// Stream answers a request, see [providers.StreamFunc].
func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
	return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
		if err := req.NeedKey(); err != nil {
			return err
		}
		var compat Compat
		if err := req.Model.DecodeCompat(&compat); err != nil {
			return err
		}
		body, direct, err := responses.NewBody(req, req.Model.ID, "openai", "openai-codex", "opencode")
		if err != nil {
			return err
		}
		tap := transport.New(req)
		opts := append(openaiapi.Options(req, tap), addCaching(req, body, compat)...)
		body.Store = new(bool)
		resp, err := openaiapi.Send(ctx, tap, "responses", body, opts)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		s.Start()
		return responses.NewReader(s, prices(req.Model.ID, direct.ServiceTier)).Read(resp.Body)
	})
}

// addCaching sets the cache options in body, and returns those that are headers.
func addCaching(req *providers.Request, body *responses.Body, c Compat) (opts []option.RequestOption) {
	retention := req.Retention()
	if retention == providers.CacheNone {
		return nil
	}
	if retention == providers.CacheLong && (c.SupportsLongCacheRetention == nil || *c.SupportsLongCacheRetention) {
		body.PromptCacheRetention = "24h"
	}
	if req.SessionID == "" {
		return nil
	}
	body.PromptCacheKey = req.SessionID
	if c.SendSessionIDHeader == nil || *c.SendSessionIDHeader {
		opts = append(opts, option.WithHeader("session_id", req.SessionID))
	}
	return append(opts, option.WithHeader("x-client-request-id", req.SessionID))
}

// prices returns a function for the factor by which a response's service tier changes the cost. If the response names
// no tier, the requested one counts.
func prices(model, requested string) func(tier string) float64 {
	return func(tier string) float64 {
		if tier == "" {
			tier = requested
		}
		switch {
		case tier == "flex":
			return 0.5
		case tier == "priority" && model == "gpt-5.5":
			return 2.5
		case tier == "priority":
			return 2
		}
		return 1
	}
}
