package mcp

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
)

// imageTypes are the image types that models accept.
var imageTypes = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}

// resultOf converts a server's result to a loopbus result. Structured content becomes the details, and also the text if
// there is no other content. Content that models cannot receive is described in text. An error result becomes an error
// with its text.
func resultOf(r *sdk.CallToolResult) (schemas.ToolResult, error) {
	if r.NeedsInput() {
		return schemas.ToolResult{}, errors.New("the MCP server asks for more input than the arguments of the call, " +
			"which cannot be given here")
	}
	result := schemas.ToolResult{Content: contents(r.Content)}
	if r.StructuredContent != nil {
		details, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return schemas.ToolResult{}, fmt.Errorf("structured content: %w", err)
		}
		result.Details = details
		if len(result.Content) == 0 {
			result.Content = schemas.Contents{schemas.Text{Text: string(details)}}
		}
	}
	if r.IsError {
		text := result.Content.JoinText()
		if text == "" {
			text = "the MCP server reports an error and does not say which"
		}
		return schemas.ToolResult{}, errors.New(text)
	}
	return result, nil
}

func contents(blocks []sdk.Content) schemas.Contents {
	out := schemas.Contents{}
	for _, b := range blocks {
		if c := content(b); c != nil {
			out = append(out, c)
		}
	}
	return out
}

func content(block sdk.Content) schemas.Content {
	switch b := block.(type) {
	case *sdk.TextContent:
		return text(b.Text)
	case *sdk.ImageContent:
		return image(b.Data, b.MIMEType, "Image")
	case *sdk.AudioContent:
		return text(fmt.Sprintf("[Audio, %s, %d bytes: it cannot be shown.]", kind(b.MIMEType), len(b.Data)))
	case *sdk.ResourceLink:
		return text(describeLink(b))
	case *sdk.EmbeddedResource:
		return resource(b.Resource)
	}
	return text(fmt.Sprintf("[Content of the type %T: it cannot be shown.]", block))
}

func image(data []byte, mimeType, what string) schemas.Content {
	if len(data) > 0 && slices.Contains(imageTypes, strings.ToLower(mimeType)) {
		return schemas.Image{Data: base64.StdEncoding.EncodeToString(data), MimeType: strings.ToLower(mimeType)}
	}
	return text(fmt.Sprintf("[%s, %s, %d bytes: it cannot be shown.]", what, kind(mimeType), len(data)))
}

func resource(r *sdk.ResourceContents) schemas.Content {
	switch {
	case r == nil:
		return nil
	case r.Blob != nil:
		return image(r.Blob, r.MIMEType, "Resource "+r.URI)
	}
	return text(fmt.Sprintf("[Resource %s, %s]\n%s", r.URI, kind(r.MIMEType), r.Text))
}

func describeLink(l *sdk.ResourceLink) string {
	about := []string{l.URI, kind(l.MIMEType)}
	if l.Size != nil {
		about = append(about, fmt.Sprintf("%d bytes", *l.Size))
	}
	name := l.Name
	if l.Title != "" {
		name = l.Title
	}
	s := fmt.Sprintf("[Link to the resource %s: %s]", name, strings.Join(about, ", "))
	if l.Description != "" {
		s += " " + l.Description
	}
	return s
}

func kind(mimeType string) string {
	if mimeType == "" {
		return "of no type"
	}
	return mimeType
}

func text(s string) schemas.Text { return schemas.Text{Text: strings.ToValidUTF8(s, "\uFFFD")} }
