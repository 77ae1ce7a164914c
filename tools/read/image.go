package read

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
)

const (
	// maxSide is the largest width and height in pixels of an image that is not scaled down.
	maxSide = 2000
	// maxFile, maxPixels and maxDecoded limit the memory that a hostile file can take.
	maxFile   = 64 << 20
	maxPixels = 100_000_000

	omitted = "\n[Image omitted: could not be resized below the inline image size limit.]"
)

func (r reader) image(ctx context.Context, file *os.File, mime string) (schemas.ToolResult, error) {
	select {
	case r.picture <- struct{}{}:
		defer func() { <-r.picture }()
	case <-ctx.Done():
		return schemas.ToolResult{}, tools.Interrupted(ctx)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return schemas.ToolResult{}, nodeerr.New(err, "read", "")
	}
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	pic, ok := picture{}, false
	if len(data) <= maxFile {
		pic, ok = fit(ctx, data, mime, r.MaxImageBytes)
	}
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	if !ok {
		return schemas.TextResult("Read image file [" + mime + "]" + omitted), nil
	}
	text := "Read image file [" + pic.mime + "]"
	if pic.width != pic.originalWidth || pic.height != pic.originalHeight {
		text += fmt.Sprintf("\n[Image: original %dx%d, displayed at %dx%d. Multiply coordinates by %s to map to "+
			"original image.]",
			pic.originalWidth, pic.originalHeight, pic.width, pic.height,
			twoDecimals(float64(pic.originalWidth)/float64(pic.width)))
	}
	result := schemas.TextResult(text)
	result.Content = append(result.Content,
		schemas.Image{Data: base64.StdEncoding.EncodeToString(pic.data), MimeType: pic.mime})
	return result, nil
}

// twoDecimals rounds halves up, as JavaScript's toFixed does and strconv does not.
func twoDecimals(f float64) string {
	if eighths := f * 8; eighths == math.Trunc(eighths) && int64(eighths)%2 == 1 {
		f += 0.001
	}
	return strconv.FormatFloat(f, 'f', 2, 64)
}
