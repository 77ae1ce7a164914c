// Package azureopenairesponses implements OpenAI's Responses API as served by Azure, with OpenAI's SDK. Differences
// are the header of the key, a version in the query, and deployments that may have their own names.
package azureopenairesponses

import (
	"context"
	"iter"
	"strings"

	"github.com/openai/openai-go/v3/option"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/providers/internal/responses"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// API is the id of the API in the catalogue.
const API = "azure-openai-responses"

// defaultVersion is the version of the API if neither the options nor the environment set one.
const defaultVersion = "v1"

var errNoURL = schemas.NewFailure(schemas.FailureInvalidRequest, "Azure OpenAI base URL is required. "+
	"Set AZURE_OPENAI_BASE_URL or AZURE_OPENAI_RESOURCE_NAME, or pass azureBaseUrl, azureResourceName, or model.baseUrl.")

// options holds the API's own options of a request. For an option that is not set, the environment and then the model
// are used.
type options struct {
	APIVersion     string `json:"azureApiVersion"`
	ResourceName   string `json:"azureResourceName"`
	BaseURL        string `json:"azureBaseUrl"`
	DeploymentName string `json:"azureDeploymentName"`
}

// Stream answers a request, see [providers.StreamFunc].
func Stream(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
	return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
		if err := req.NeedKey(); err != nil {
			return err
		}
		var o options
		if err := req.DecodeVendor(&o); err != nil {
			return err
		}
		url := o.baseURL(req)
		if url == "" {
			return errNoURL
		}
		body, _, err := responses.NewBody(req, o.deployment(req), "openai", "openai-codex", "opencode", API)
		if err != nil {
			return err
		}
		body.PromptCacheKey = req.SessionID
		tap := transport.New(req)
		opts := append(openaiapi.Options(req, tap), option.WithBaseURL(url),
			option.WithAPIKey(""), option.WithHeaderDel("authorization"), option.WithHeader("api-key", req.APIKey),
			option.WithQuery("api-version", first(o.APIVersion, req.Env("AZURE_OPENAI_API_VERSION"), defaultVersion)))
		resp, err := openaiapi.Send(ctx, tap, "responses", body, opts)
		if err != nil {
			return err
		}
		defer func() { _ = resp.Body.Close() }()
		s.Start()
		return responses.NewReader(s, nil).Read(resp.Body)
	})
}

// baseURL returns the base URL of the options, the environment or the model, in this order; "" if there is none.
func (o options) baseURL(req *providers.Request) string {
	url := first(strings.TrimSpace(o.BaseURL), strings.TrimSpace(req.Env("AZURE_OPENAI_BASE_URL")))
	if resource := first(o.ResourceName, req.Env("AZURE_OPENAI_RESOURCE_NAME")); url == "" && resource != "" {
		url = "https://" + resource + ".openai.azure.com/openai/v1"
	}
	return strings.TrimRight(first(url, req.Model.BaseURL), "/")
}

// deployment returns Azure's name of the model: the option, or else the name in AZURE_OPENAI_DEPLOYMENT_NAME_MAP
// (model=deployment,...), or else the model's id.
func (o options) deployment(req *providers.Request) string {
	if o.DeploymentName != "" {
		return o.DeploymentName
	}
	for pair := range strings.SplitSeq(req.Env("AZURE_OPENAI_DEPLOYMENT_NAME_MAP"), ",") {
		model, deployment, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if ok && strings.TrimSpace(model) == req.Model.ID && strings.TrimSpace(deployment) != "" {
			return strings.TrimSpace(deployment)
		}
	}
	return req.Model.ID
}

// first returns the first that is not empty.
func first(list ...string) string {
	for _, s := range list {
		if s != "" {
			return s
		}
	}
	return ""
}
