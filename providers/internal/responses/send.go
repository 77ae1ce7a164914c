package responses

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	sdk "github.com/openai/openai-go/v3/responses"

	"github.com/loopbus/loopbus/providers/internal/openaiapi"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/schemas"
)

// Send makes the request with these options of the SDK and returns the response if it is a good one. The caller closes
// its body.
func Send(ctx context.Context, tap *transport.Tap, body *Body, opts []option.RequestOption) (*http.Response, error) {
	raw, err := schemas.Marshal(body)
	if err != nil {
		return nil, err
	}
	var resp *http.Response
	service := sdk.NewResponseService(append(opts, option.WithResponseBodyInto(&resp))...)
	if err := service.NewStreaming(ctx, param.Override[sdk.ResponseNewParams](json.RawMessage(raw))).Err(); err != nil {
		return nil, openaiapi.FromTap(tap, err)
	}
	return resp, nil
}
