// Package ls is the tool that lists a directory.
package ls

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	if err := listing.Directory(ctx, l.workspace, dir); err != nil {
		return schemas.ToolResult{}, err
	}
	found := entries{limit: limit, out: truncate.NewHead(truncate.NoLineLimit, truncate.MaxBytes)}
	for names, err := range ordered(maxEntries, func(add func(string)) error { return l.read(ctx, dir, add) }) {
		if err == nil {
			err = l.describe(ctx, dir, names, &found)
		}
		if err != nil {
			return schemas.ToolResult{}, err
		}
		if found.more {
			break
		}
	}
	return found.result()
}

// atOnce is how many names are read between two checks of the context.
const atOnce = 1024

// read passes the names in a directory to add, in no order.
func (l lister) read(ctx context.Context, dir string, add func(name string)) error {
	file, err := l.workspace.Open(ctx, dir)
	if err != nil {
		return tools.Failf("Cannot read directory: %v", nodeerr.New(err, "scandir", dir))
	}
	defer func() { _ = file.Close() }() // nothing was written
	for {
		if err := tools.Interrupted(ctx); err != nil {
			return err
		}
		names, err := file.Readdirnames(atOnce)
		for _, name := range names {
			add(name)
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return tools.Failf("Cannot read directory: %v", nodeerr.New(err, "scandir", dir))
		}
	}
}

// describe marks directories and leaves out names whose target does not exist, such as broken links. A link that leads
// out of the workspace is listed, but not followed.
func (l lister) describe(ctx context.Context, dir string, names []entry, found *entries) error {
	base := strings.TrimSuffix(dir, "/") + "/"
	for _, e := range names {
		name := e.name
		if found.count >= found.limit {
			found.more = true
			return nil
		}
		if err := tools.Interrupted(ctx); err != nil {
			return err
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
		found.add(name)
	}
	return nil
}

// entries collects the entries. It keeps only the part that may be shown, however many there are.
type entries struct {
	limit, count int64
	more         bool // there are others beyond the limit
	out          *truncate.Head
}

func (f *entries) add(name string) {
	if f.count > 0 {
		name = "\n" + name
	}
	f.out.Write([]byte(name))
	f.count++
}

func (f *entries) result() (schemas.ToolResult, error) {
	if f.count == 0 {
		return schemas.TextResult("(empty directory)"), nil
	}
	var notices []string
	var d details
	if f.more {
		notices = append(notices, fmt.Sprintf("%d entries limit reached. Use limit=%d for more", f.limit, 2*f.limit))
		d.EntryLimitReached = f.limit
	}
	cut := f.out.Result()
	if cut.Truncated {
		notices = append(notices, listing.BytesNotice())
		d.Truncation = &cut
	}
	return listing.Result(cut.Content, notices, d)
}
