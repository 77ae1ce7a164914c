// Package ls is the tool that lists a directory.
package ls

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/listing"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/internal/truncate"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Name is the tool's name.
const Name = "ls"

// DefaultLimit is the default number of entries.
const DefaultLimit = 500

const parameters = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "Directory to list (default: current directory)"},
    "limit": {"type": "number", "description": "Maximum number of entries to return (default: 500)"}
  }
}`

const description = "List directory contents. Returns entries sorted alphabetically, with '/' suffix for " +
	"directories. Includes dotfiles. Output is truncated to 500 entries or 50KB (whichever is hit first)."

type arguments struct {
	Path  string   `json:"path"`
	Limit *float64 `json:"limit"`
}

type details struct {
	EntryLimitReached int64            `json:"entryLimitReached,omitempty"`
	Truncation        *truncate.Result `json:"truncation,omitempty"`
}

// New returns the tool, which lists directories of the workspace. The caller must keep the workspace open while the
// tool is in use.
func New(w *workspace.Workspace) tools.Tool {
	return listing.Tool(Name, description, parameters, lister{w}.run)
}

type lister struct{ workspace *workspace.Workspace }

func (l lister) run(ctx context.Context, args arguments) (schemas.ToolResult, error) {
	limit := listing.Limit(args.Limit, DefaultLimit)
	dir := l.workspace.Resolve(args.Path)
	names, err := l.read(ctx, dir)
	if err != nil {
		return schemas.ToolResult{}, err
	}
	entries, more, err := l.describe(ctx, dir, names, limit)
	if err != nil {
		return schemas.ToolResult{}, err
	}
	return result(entries, more, limit)
}

// read returns the names in a directory, sorted.
func (l lister) read(ctx context.Context, dir string) ([]string, error) {
	if err := listing.Directory(ctx, l.workspace, dir); err != nil {
		return nil, err
	}
	file, err := l.workspace.Open(ctx, dir)
	if err != nil {
		return nil, tools.Failf("Cannot read directory: %v", nodeerr.New(err, "scandir", dir))
	}
	defer func() { _ = file.Close() }() // nothing was written
	names, err := file.Readdirnames(-1)
	if err != nil {
		return nil, tools.Failf("Cannot read directory: %v", nodeerr.New(err, "scandir", dir))
	}
	order(names)
	return names, nil
}

// describe marks directories and leaves out names whose target does not exist, such as broken links. A link that leads
// out of the workspace is listed, but not followed.
func (l lister) describe(ctx context.Context, dir string, names []string, limit int64) (entries []string, more bool,
	err error) {
	base := strings.TrimSuffix(dir, "/") + "/"
	for _, name := range names {
		if int64(len(entries)) >= limit {
			return entries, true, nil
		}
		if err := tools.Interrupted(ctx); err != nil {
			return nil, false, err
		}
		info, err := l.workspace.Stat(ctx, base+name)
		var outside *workspace.DeniedError
		switch {
		case errors.As(err, &outside):
		case err != nil:
			continue
		case info.IsDir():
			name += "/"
		}
		entries = append(entries, name)
	}
	return entries, false, nil
}

func result(entries []string, more bool, limit int64) (schemas.ToolResult, error) {
	if len(entries) == 0 {
		return schemas.TextResult("(empty directory)"), nil
	}
	var notices []string
	var d details
	if more {
		notices = append(notices, fmt.Sprintf("%d entries limit reached. Use limit=%d for more", limit, 2*limit))
		d.EntryLimitReached = limit
	}
	cut := truncate.Text(strings.Join(entries, "\n"), truncate.NoLineLimit, truncate.MaxBytes)
	if cut.Truncated {
		notices = append(notices, listing.BytesNotice())
		d.Truncation = &cut
	}
	return listing.Result(cut.Content, notices, d)
}
