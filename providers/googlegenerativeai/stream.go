// Package googlegenerativeai implements Google's Generative AI API (Gemini with an API key).
// providers/internal/gemini explains why it does not use the vendor's SDK.
package googlegenerativeai

import (
	"context"
	"iter"
	"net/http"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/gemini"
	"github.com/loopbus/loopbus/schemas"
)

// API is the id of the API in the catalogue.
const API = "google-generative-ai"

// Stream answers a request, see [providers.StreamFunc].
func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
	return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
		if err := req.NeedKey(); err != nil {
			return err
		}
		url := strings.TrimRight(req.Model.BaseURL, "/") + "/models/" + req.Model.ID + ":streamGenerateContent"
		return gemini.Play(ctx, s, req, url, http.Header{"X-Goog-Api-Key": {req.APIKey}})
	})
}
