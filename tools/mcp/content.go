package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools/internal/picture"
)

// maxPictures is how many images of a result are looked at. A message has room for thousands, and each could take
// seconds to decode.
const maxPictures = 20

// resultOf converts a server's result to a loopbus result. Structured content becomes the details, and also the text if
// there is no other content. Content that models cannot receive is described in text. An error result becomes an error
// with its text.
func (b *Bridge) resultOf(ctx context.Context, r *sdk.CallToolResult) (schemas.ToolResult, error) {
	if r.NeedsInput() {
		return schemas.ToolResult{}, errors.New("the MCP server asks for more input than the arguments of the call, " +
			"which cannot be given here")
	}
	show := named
	if !r.IsError {
		show = (&gallery{turns: b.turns, maxBase64: b.o.MaxImageBytes, left: maxPictures}).show
	}
	result := schemas.ToolResult{Content: contents(ctx, r.Content, show)}
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

func contents(ctx context.Context, blocks []sdk.Content, show shower) schemas.Contents {
	out := schemas.Contents{}
	for _, b := range blocks {
		out = append(out, content(ctx, b, show)...)
	}
	return out
}

func content(ctx context.Context, block sdk.Content, show shower) schemas.Contents {
	switch b := block.(type) {
	case *sdk.TextContent:
		return texts(b.Text)
	case *sdk.ImageContent:
		return show(ctx, blob{b.Data, b.MIMEType, "Image"})
	case *sdk.AudioContent:
		return texts(blob{b.Data, b.MIMEType, "Audio"}.but("it cannot be shown"))
	case *sdk.ResourceLink:
		return texts(describeLink(b))
	case *sdk.EmbeddedResource:
		return resource(ctx, b.Resource, show)
	}
	return texts(fmt.Sprintf("[Content of the type %T: it cannot be shown.]", block))
}

func resource(ctx context.Context, r *sdk.ResourceContents, show shower) schemas.Contents {
	switch {
	case r == nil:
		return nil
	case r.Blob != nil:
		return show(ctx, blob{r.Blob, r.MIMEType, "Resource " + r.URI})
	}
	return texts(fmt.Sprintf("[Resource %s, %s]\n%s", r.URI, kind(r.MIMEType), r.Text))
}

// A blob is content of a server that is not text. Its declared type may be wrong.
type blob struct {
	data           []byte
	declared, what string
}

// but describes a blob in place of showing it.
func (b blob) but(why string) string {
	return fmt.Sprintf("[%s, %s, %d bytes: %s.]", b.what, kind(b.declared), len(b.data), why)
}

// A shower converts a blob to what a model receives.
type shower func(ctx context.Context, b blob) schemas.Contents

// named is the [shower] of errors, which are texts.
func named(_ context.Context, b blob) schemas.Contents { return texts(b.but("it cannot be shown")) }

// A gallery shows the images of one result. An image that models cannot read would make the session unusable, whose
// every later request contains it. So only what can be decoded is shown, and its bytes decide the type.
type gallery struct {
	turns     picture.Turns
	maxBase64 int
	left      int // how many more images are looked at
}

// show is a [shower].
func (g *gallery) show(ctx context.Context, b blob) schemas.Contents {
	mimeType := picture.Type(b.data)
	if mimeType == "" {
		return named(ctx, b)
	}
	if g.left == 0 {
		return texts(b.but("it is not shown, the result has too many"))
	}
	g.left--
	end, err := g.turns.Take(ctx)
	if err != nil {
		return named(ctx, b) // the result is not used
	}
	defer end()
	pic, ok := picture.Fit(ctx, b.data, mimeType, g.maxBase64)
	if !ok || pic.Undecoded {
		return named(ctx, b)
	}
	if note := pic.Note(); note != "" {
		return append(texts(note), pic.Image())
	}
	return schemas.Contents{pic.Image()}
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

func texts(s string) schemas.Contents { return schemas.Contents{text(s)} }
