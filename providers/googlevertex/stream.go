// Package googlevertex implements Gemini as served by Vertex AI: with an API key, or with the machine's application
// default credentials for a project and a location. providers/internal/gemini explains why it does not use the
// vendor's SDK.
package googlevertex

import (
	"context"
	"iter"
	"net/http"
	"regexp"
	"strings"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/gemini"
	"github.com/loopbus/loopbus/schemas"
)

// API is the id of the API in the catalogue.
const API = "google-vertex"

var (
	errNoProject = schemas.NewFailure(schemas.FailureInvalidRequest,
		"Vertex AI requires a project ID. Set GOOGLE_CLOUD_PROJECT/GCLOUD_PROJECT or pass project in options.")
	errNoLocation = schemas.NewFailure(schemas.FailureInvalidRequest,
		"Vertex AI requires a location. Set GOOGLE_CLOUD_LOCATION or pass location in options.")
)

// options holds the API's own options of a request. For an option that is not set, the environment is used.
type options struct {
	Project  string `json:"project"`
	Location string `json:"location"`
}

// New returns the API's function; see [providers.StreamFunc]. It caches the machine's credentials and renews expired
// tokens. Nobody waits longer than [tokenTimeout] for a token, nor beyond the own context.
func New() providers.StreamFunc {
	c := new(defaultCredentials)
	return func(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
		return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
			url, header, err := target(ctx, req, c)
			if err != nil {
				return err
			}
			return gemini.Play(ctx, s, req, url, header)
		})
	}
}

// target returns the URL of the request, and a header with the API key or an access token.
func target(ctx context.Context, req *providers.Request, c *defaultCredentials) (url string, header http.Header,
	err error) {
	model := "/publishers/google/models/" + req.Model.ID + ":streamGenerateContent"
	if req.APIKey != "" {
		return base(req.Model.BaseURL, "") + model, http.Header{"X-Goog-Api-Key": {req.APIKey}}, nil
	}
	var o options
	if err := req.DecodeVendor(&o); err != nil {
		return "", nil, err
	}
	if o.Project == "" {
		o.Project = req.Env("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
	}
	if o.Location == "" {
		o.Location = req.Env("GOOGLE_CLOUD_LOCATION")
	}
	switch {
	case o.Project == "":
		return "", nil, errNoProject
	case o.Location == "":
		return "", nil, errNoLocation
	}
	token, err := c.token(ctx)
	if err != nil {
		return "", nil, err
	}
	path := "/projects/" + o.Project + "/locations/" + o.Location
	return base(req.Model.BaseURL, o.Location) + path + model, http.Header{"Authorization": {"Bearer " + token}}, nil
}

var versioned = regexp.MustCompile(`/v\d+[a-z0-9]*$`)

// base returns the base URL with a version. If the model's URL is empty or has a placeholder for the location, base
// returns the vendor's URL for the location, or for all locations if location is empty.
func base(url, location string) string {
	if url == "" || strings.Contains(url, "{location}") {
		url = "https://aiplatform.googleapis.com"
		if location != "" && location != "global" {
			url = "https://" + location + "-aiplatform.googleapis.com"
		}
	}
	url = strings.TrimRight(url, "/")
	if !versioned.MatchString(url) {
		url += "/v1"
	}
	return url
}
