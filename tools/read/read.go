// Package read is the tool that reads text files and images.
package read

import (
	"context"
	"encoding/json"
	"io"
	"math"
	"os"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/internal/picture"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Name is the tool's name.
const Name = "read"

const parameters = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "Path of the file to read (relative or absolute)"},
    "offset": {"type": "number", "description": "Line number to start reading from (1-indexed)"},
    "limit": {"type": "number", "description": "Maximum number of lines to read"}
  },
  "required": ["path"]
}`

const description = "Read the contents of a file. Supports text files and images (jpg, png, gif, webp). Images " +
	"are sent " +
	"as attachments. The output of text files is truncated to 2000 lines or 50KB (whichever is hit first). Use " +
	"offset/limit for large files; to get a whole file, continue with offset until complete."

// DefaultMaxImageBytes is the largest base64 size of an image that is not scaled down: 4.5 MiB, which model APIs
// accept.
const DefaultMaxImageBytes = picture.MaxBase64

// Options configures [New].
type Options struct {
	// Workspace has the files that may be read. The caller must keep it open while the tool is in use.
	Workspace *workspace.Workspace
	// MaxImageBytes is the largest base64 size of an image that is not scaled down, default [DefaultMaxImageBytes].
	// Workers set less if a message of the bus cannot hold that much.
	MaxImageBytes int
}

type arguments struct {
	Path   string   `json:"path"`
	Offset float64  `json:"offset"`
	Limit  *float64 `json:"limit"`
}

// New returns the tool.
func New(o Options) tools.Tool {
	if o.MaxImageBytes <= 0 || o.MaxImageBytes > DefaultMaxImageBytes {
		o.MaxImageBytes = DefaultMaxImageBytes
	}
	r := reader{Options: o, turns: picture.Shared()}
	return tools.Must(tools.Typed(schemas.ToolDefinition{
		Name: Name, Label: Name, Description: description, Parameters: json.RawMessage(parameters),
		Effect: schemas.EffectReadOnly, TimeoutMs: tools.DefaultReadTimeout.Milliseconds(),
		ArgumentRewrites: []schemas.ArgumentRewrite{schemas.RenameArgument("path", "file_path")},
	}, r.execute))
}

type reader struct {
	Options
	turns picture.Turns
}

func (r reader) execute(ctx context.Context, _ tools.Call, args arguments) (schemas.ToolResult, error) {
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	file, err := r.open(ctx, args.Path)
	if err != nil {
		return schemas.ToolResult{}, err
	}
	defer func() { _ = file.Close() }() // nothing was written
	kind, err := sniff(file)
	if err != nil {
		return schemas.ToolResult{}, nodeerr.New(err, "read", "")
	}
	if kind != "" {
		return r.image(ctx, file, kind)
	}
	return r.text(ctx, file, args)
}

// open opens the first of the names that exists. It refuses everything but regular files and directories: reading a
// pipe or a terminal may never end.
func (r reader) open(ctx context.Context, path string) (*os.File, error) {
	full := r.Workspace.Resolve(path)
	if strings.IndexByte(full, 0) >= 0 {
		return nil, nodeerr.NullByte(full)
	}
	info, err := r.Workspace.Stat(ctx, full)
	if err != nil {
		for _, name := range variants(full) {
			if other, e := r.Workspace.Stat(ctx, name); e == nil {
				full, info, err = name, other, nil
				break
			}
		}
	}
	if err != nil {
		return nil, nodeerr.New(err, "access", full)
	}
	if !info.Mode().IsRegular() && !info.IsDir() {
		return nil, tools.Failf("Not a regular file: %s", full)
	}
	file, err := r.Workspace.Open(ctx, full)
	if err != nil {
		return nil, nodeerr.New(err, "access", full)
	}
	return file, nil
}

// selection is the range of requested lines: from index start, where 0 is the first line, up to but excluding end.
type selection struct{ start, end int64 }

func (a arguments) selection() selection {
	s := selection{end: math.MaxInt64}
	if a.Offset >= 1 {
		s.start = toLine(a.Offset) - 1
	}
	if a.Limit != nil {
		s.end = s.start + min(max(toLine(*a.Limit), 0), math.MaxInt64-s.start)
	}
	return s
}

// toLine truncates a number to a line number. The largest result is beyond the last line of any file.
func toLine(n float64) int64 {
	switch {
	case n >= 1<<62:
		return 1 << 62
	case n <= -1<<62:
		return -1 << 62
	}
	return int64(n)
}

func rewind(file *os.File) error {
	_, err := file.Seek(0, io.SeekStart)
	return err
}
