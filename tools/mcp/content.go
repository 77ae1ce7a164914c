package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/picture"
)

const (
	// maxPictures is how many images of a result are looked at. A message has room for thousands, and each could take
	// seconds to decode.
	maxPictures = 20
	// maxUnseen is how many bytes of a server's results may wait until their images are looked at. That is done one after
	// the other, and a server could send more in the meantime than the worker has memory for.
	maxUnseen = 128 << 20
)

// resultOf converts a server's result to a loopbus result. Structured content becomes the details, and also the text if
// there is no other content. Content that models cannot receive is described in text. An error result becomes an error
// with its text. While resultOf waits it does not keep r, which may take more memory than it seems to have content.
func (b *Bridge) resultOf(ctx context.Context, r *sdk.CallToolResult) (schemas.ToolResult, error) {
	if r.NeedsInput() {
		return schemas.ToolResult{}, errors.New("the MCP server asks for more input than the arguments of the call, " +
			"which cannot be given here")
	}
	var result schemas.ToolResult
	if r.StructuredContent != nil {
		details, err := json.Marshal(r.StructuredContent)
		if err != nil {
			return schemas.ToolResult{}, fmt.Errorf("structured content: %w", err)
		}
		result.Details = details
	}
	parts := partsOf(r.Content)
	if r.IsError {
		text := string(result.Details)
		if len(parts) > 0 {
			text = contents(parts, blob.named).JoinText()
		}
		if text == "" {
			text = "the MCP server reports an error and does not say which"
		}
		return schemas.ToolResult{}, errors.New(text)
	}
	seen, err := b.look(ctx, parts, len(result.Details))
	if err != nil {
		return schemas.ToolResult{}, err
	}
	if result.Content = seen; len(seen) == 0 && result.Details != nil {
		result.Content = schemas.Contents{schemas.Text{Text: string(result.Details)}}
	}
	return result, nil
}

// A part is what a model receives of a block of content, or an image that has to be looked at first.
type part struct {
	done   schemas.Contents
	unseen *blob
}

func partsOf(blocks []sdk.Content) (parts []part) {
	for _, b := range blocks {
		parts = append(parts, partOf(b))
	}
	return parts
}

func partOf(block sdk.Content) part {
	switch b := block.(type) {
	case *sdk.TextContent:
		return part{done: texts(b.Text)}
	case *sdk.ImageContent:
		return blob{b.Data, b.MIMEType, "Image"}.part()
	case *sdk.AudioContent:
		return part{done: blob{b.Data, b.MIMEType, "Audio"}.named()}
	case *sdk.ResourceLink:
		return part{done: texts(describeLink(b))}
	case *sdk.EmbeddedResource:
		return resource(b.Resource)
	}
	return part{done: texts(fmt.Sprintf("[Content of the type %T: it cannot be shown.]", block))}
}

func resource(r *sdk.ResourceContents) part {
	switch {
	case r == nil:
		return part{}
	case r.Blob != nil:
		return blob{r.Blob, r.MIMEType, "Resource " + r.URI}.part()
	}
	return part{done: texts(fmt.Sprintf("[Resource %s, %s]\n%s", r.URI, kind(r.MIMEType), r.Text))}
}

// contents returns the content of all parts, with what show makes of images.
func contents(parts []part, show func(blob) schemas.Contents) schemas.Contents {
	out := schemas.Contents{}
	for _, p := range parts {
		if p.unseen != nil {
			p.done = show(*p.unseen)
		}
		out = append(out, p.done...)
	}
	return out
}

// A blob is content of a server that is not text. Its declared type may be wrong.
type blob struct {
	data           []byte
	declared, what string
}

// but describes a blob in place of showing it.
func (b blob) but(why string) schemas.Contents {
	return texts(fmt.Sprintf("[%s, %s, %d bytes: %s.]", b.what, kind(b.declared), len(b.data), why))
}

func (b blob) named() schemas.Contents { return b.but("it cannot be shown") }

func (b blob) part() part {
	if picture.Type(b.data) == "" {
		return part{done: b.named()}
	}
	return part{unseen: &b}
}

// look returns the content of the parts of a result with so many more bytes, with their images. Those of a server's
// results are looked at one result after the other, so that they do not keep the images of other tools from their turn.
func (b *Bridge) look(ctx context.Context, parts []part, more int) (schemas.Contents, error) {
	if !slices.ContainsFunc(parts, func(p part) bool { return p.unseen != nil }) {
		return contents(parts, nil), nil
	}
	bytes := int64(more)
	for _, p := range parts {
		bytes += int64(p.bytes())
	}
	defer b.unseen.Add(-bytes)
	if b.unseen.Add(bytes) > maxUnseen {
		return nil, tools.Failf("The MCP server %s was called, but its result is left out: too many other results of it "+
			"wait until their images are looked at. With fewer calls at the same time there is room", b.o.Server.Name)
	}
	end, err := b.looking.Take(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	g := gallery{turns: b.turns, maxBase64: b.o.MaxImageBytes, left: maxPictures}
	return contents(parts, func(b blob) schemas.Contents { return g.show(ctx, b) }), nil
}

func (p part) bytes() int {
	if p.unseen != nil {
		return len(p.unseen.data)
	}
	n := 0
	for _, c := range p.done {
		if t, ok := c.(schemas.Text); ok {
			n += len(t.Text)
		}
	}
	return n
}

// A gallery shows the images of one result. An image that models cannot read would make the session unusable, whose
// every later request contains it. So only what can be decoded is shown, and its bytes decide the type.
type gallery struct {
	turns     picture.Turns
	maxBase64 int
	left      int // how many more images are looked at
}

func (g *gallery) show(ctx context.Context, b blob) schemas.Contents {
	if g.left == 0 {
		return b.but("it is not shown, the result has too many")
	}
	g.left--
	end, err := g.turns.Take(ctx)
	if err != nil {
		return b.named() // the result is not used
	}
	defer end()
	pic, ok := picture.Fit(ctx, b.data, picture.Type(b.data), g.maxBase64)
	if !ok || pic.Undecoded {
		return b.named()
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
