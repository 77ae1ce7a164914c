package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// detailsMeta is the member of a result's _meta with the details of the loopbus result. They are not sent as
	// structured content: clients show that to models instead of the content, and details are not meant for models.
	detailsMeta = "loopbus.dev/details"

	maxProgress = 1 << 10 // bytes of a partial result that a notification quotes
)

// sdkTool describes a tool to MCP clients.
func sdkTool(def schemas.ToolDefinition) (*sdk.Tool, error) {
	schema := map[string]any{}
	if len(def.Parameters) > 0 && def.Parameters[0] == '{' {
		if err := json.Unmarshal(def.Parameters, &schema); err != nil {
			return nil, fmt.Errorf("parameters: %w", err)
		}
	}
	if _, ok := schema["type"]; !ok {
		schema["type"] = "object" // MCP requires it; arguments are always an object
	}
	text, err := schemas.Marshal(schema) // it takes a tenth of what the values take
	if err != nil {
		return nil, fmt.Errorf("parameters: %w", err)
	}
	effect := def.EffectClass()
	tool := &sdk.Tool{Name: def.Name, Title: def.Label, Description: def.Description, InputSchema: json.RawMessage(text),
		Annotations: &sdk.ToolAnnotations{
			ReadOnlyHint: effect == schemas.EffectReadOnly, IdempotentHint: effect.Repeatable(),
		}}
	if a := def.Annotations; a != nil {
		tool.Annotations.Title, tool.Annotations.DestructiveHint, tool.Annotations.OpenWorldHint = a.Title, a.DestructiveHint,
			a.OpenWorldHint
	}
	return tool, nil
}

// sdkResult converts a loopbus result for MCP clients.
func sdkResult(r schemas.ToolResult, isError bool) *sdk.CallToolResult {
	out := &sdk.CallToolResult{IsError: isError, Content: []sdk.Content{}}
	for _, c := range r.Content {
		switch c := c.(type) {
		case schemas.Text:
			out.Content = append(out.Content, &sdk.TextContent{Text: c.Text})
		case schemas.Image:
			out.Content = append(out.Content, sdkImage(c))
		default:
			out.Content = append(out.Content, &sdk.TextContent{Text: fmt.Sprintf("[Content of the type %s: it cannot be shown.]",
				c.ContentType())})
		}
	}
	if len(r.Details) > 0 && string(r.Details) != "{}" {
		out.Meta = sdk.Meta{detailsMeta: r.Details}
	}
	return out
}

func sdkImage(image schemas.Image) sdk.Content {
	data, err := base64.StdEncoding.DecodeString(image.Data)
	if err != nil {
		return &sdk.TextContent{Text: "[Image, " + image.MimeType + ": it is no base64 and cannot be shown.]"}
	}
	return &sdk.ImageContent{Data: data, MIMEType: image.MimeType}
}

// progressReporter returns a function that sends partial results to the client, or nil if the client has not requested
// progress.
func progressReporter(ctx context.Context, req *sdk.CallToolRequest) func(schemas.ToolResult) {
	token := req.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	last := 0.0
	return func(r schemas.ToolResult) {
		p := &sdk.ProgressNotificationParams{ProgressToken: token, Progress: last + 1,
			Message: lastBytes(r.Content.JoinText(), maxProgress)}
		if d, err := progressOf(r); err == nil && d.Progress > last {
			p.Progress, p.Total, p.Message = d.Progress, d.Total, d.Message
		}
		last = p.Progress
		_ = req.Session.NotifyProgress(ctx, p) // progress may be lost: the result contains everything
	}
}

// progressOf returns the progress of a call if the details of the partial result contain it, as those of a [Bridge] do.
func progressOf(r schemas.ToolResult) (d progressDetails, err error) {
	if len(r.Details) == 0 {
		return d, errors.New("no details")
	}
	return d, json.Unmarshal(r.Details, &d)
}

// lastBytes returns the last bytes of a text, up to most of them.
func lastBytes(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-most:], "")
}
