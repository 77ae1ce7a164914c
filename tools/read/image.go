package read

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/internal/picture"
)

const omitted = "\n[Image omitted: could not be resized below the inline image size limit.]"

func (r reader) image(ctx context.Context, file *os.File, mime string) (schemas.ToolResult, error) {
	end, err := r.turns.Take(ctx) // before the file is read into memory
	if err != nil {
		return schemas.ToolResult{}, tools.Interrupted(ctx)
	}
	defer end()
	data, err := io.ReadAll(io.LimitReader(file, picture.MaxFile+1))
	if err != nil {
		return schemas.ToolResult{}, nodeerr.New(err, "read", "")
	}
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	pic, ok := picture.Fit(ctx, data, mime, r.MaxImageBytes)
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	if !ok {
		return schemas.TextResult("Read image file [" + mime + "]" + omitted), nil
	}
	text := "Read image file [" + pic.MIME + "]"
	if note := pic.Note(); note != "" {
		text += "\n" + note
	}
	result := schemas.TextResult(text)
	result.Content = append(result.Content, pic.Image())
	return result, nil
}

// sniff detects by content whether a file is an image that models accept. It returns the MIME type or "", and seeks
// back to the start of the file.
func sniff(file *os.File) (string, error) {
	head := make([]byte, picture.HeadBytes)
	n, err := io.ReadFull(file, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", err
	}
	return picture.Type(head[:n]), rewind(file)
}
