package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
)

const (
	// maxUnread is how many bytes of JSON the answers have together that clients over HTTP have not accepted yet. The
	// SDK has up to eight times as many in memory.
	maxUnread = 64 << 20
	freely    = 8 << 10 // bytes of an answer that needs no room
	fewBytes  = 200     // of each part of an answer, besides its texts
)

var errUnread = &jsonrpc.Error{Code: jsonrpc.CodeInternalError,
	Message: "there is no room for the answer, as clients have not read other ones: try again later"}

// unread limits the memory of the answers that clients have not accepted yet: a short request may have a long answer,
// and hundreds of clients may read none. The zero value is ready for use.
type unread struct{ held atomic.Int64 }

// bounded is an [sdk.Middleware]. It replaces a result that has no room by an error. Otherwise the result has its room
// until it has been written and its HTTP request has ended.
func (g *Gateway) bounded(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, req)
		request := g.posts.of(req.GetExtra())
		if err != nil || request == nil {
			return result, err
		}
		if request.Err() != nil {
			return nil, request.Err() // nobody reads it
		}
		size := int64(sizeOf(result))
		if size <= freely {
			return result, nil
		}
		if g.unread.held.Add(size) > maxUnread {
			g.unread.held.Add(-size)
			if _, ok := result.(*sdk.CallToolResult); ok {
				return failed("The call has ended, but there was no room for its result, as clients have not read other ones."),
					nil
			}
			return nil, errUnread
		}
		// The SDK ends ctx when it has written the answer, but also when the client cancels the request meanwhile.
		context.AfterFunc(ctx, func() {
			context.AfterFunc(request, func() { g.unread.held.Add(-size) })
		})
		return result, nil
	}
}

// sizeOf returns about how many bytes a result has as JSON. What it does not count is small.
func sizeOf(result sdk.Result) (n int) {
	switch r := result.(type) {
	case *sdk.ListToolsResult:
		for _, tool := range r.Tools {
			n += toolSize(tool)
		}
	case *sdk.CallToolResult:
		for _, c := range r.Content {
			switch c := c.(type) {
			case *sdk.TextContent:
				n += schemas.QuotedSize(c.Text)
			case *sdk.ImageContent:
				n += base64.StdEncoding.EncodedLen(len(c.Data)) + schemas.QuotedSize(c.MIMEType)
			}
			n += fewBytes
		}
		if details, ok := r.Meta[detailsMeta].(json.RawMessage); ok {
			n += len(details)
		}
	}
	return n
}

func toolSize(tool *sdk.Tool) int {
	n := fewBytes + schemas.QuotedSize(tool.Name) + schemas.QuotedSize(tool.Title) + schemas.QuotedSize(tool.Description)
	if schema, ok := tool.InputSchema.(json.RawMessage); ok {
		n += len(schema)
	}
	if tool.Annotations != nil {
		n += schemas.QuotedSize(tool.Annotations.Title)
	}
	return n
}
