// Package find is the tool that searches for files by name.
package find

import (
	"context"
	"fmt"
	"io/fs"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/glob"
	"github.com/loopbus/loopbus/tools/internal/listing"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/internal/truncate"
	"github.com/loopbus/loopbus/tools/internal/walk"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Name is the tool's name.
const Name = "find"

// DefaultLimit is the default number of results.
const DefaultLimit = 1000

const parameters = `{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "description": "Glob pattern to match files, ` +
	`e.g. '*.ts', '**/*.json', or 'src/**/*.spec.ts'"},
    "path": {"type": "string", "description": "Directory to search in (default: current directory)"},
    "limit": {"type": "number", "description": "Maximum number of results (default: 1000)"}
  },
  "required": ["pattern"]
}`

const description = "Search for files by glob pattern. Returns matching paths relative to the search directory. " +
	"Respects .gitignore. Output is truncated to 1000 results or 50KB (whichever is hit first)."

type arguments struct {
	Pattern string   `json:"pattern"`
	Path    string   `json:"path"`
	Limit   *float64 `json:"limit"`
}

type details struct {
	ResultLimitReached int64            `json:"resultLimitReached,omitempty"`
	Truncation         *truncate.Result `json:"truncation,omitempty"`
}

// New returns the tool, which searches directories of the workspace. The caller must keep the workspace open while
// the tool is in use.
func New(w *workspace.Workspace) tools.Tool {
	return listing.Tool(Name, description, parameters, finder{w}.run)
}

type finder struct{ workspace *workspace.Workspace }

func (f finder) run(ctx context.Context, args arguments) (schemas.ToolResult, error) {
	limit := listing.Limit(args.Limit, DefaultLimit)
	dir := f.workspace.Resolve(args.Path)
	matches, err := matcher(ctx, args.Pattern, dir)
	if err != nil {
		return schemas.ToolResult{}, err
	}
	if err := listing.Directory(ctx, f.workspace, dir); err != nil {
		return schemas.ToolResult{}, err
	}
	files, start, err := f.workspace.FS(ctx, dir)
	if err != nil {
		return schemas.ToolResult{}, err
	}
	found := findings{limit: limit, out: truncate.NewHead(truncate.NoLineLimit, truncate.MaxBytes)}
	err = found.search(ctx, files, start, matches)
	if e := tools.Interrupted(ctx); e != nil {
		return schemas.ToolResult{}, e
	}
	if err != nil {
		return schemas.ToolResult{}, tools.Failf("Cannot read directory: %v", nodeerr.New(err, "scandir", dir))
	}
	return found.result()
}

// matcher returns a function that matches paths below dir: a pattern with a slash against whole paths, any other
// pattern against names. A pattern without a capital letter ignores case.
func matcher(ctx context.Context, pattern, dir string) (func(path, name string) bool, error) {
	if pattern == "" {
		return func(string, string) bool { return true }, nil
	}
	whole := strings.Contains(pattern, "/")
	fold := !glob.HasUpper(pattern)
	if whole && !strings.HasPrefix(pattern, "/") && !strings.HasPrefix(pattern, "**/") {
		pattern = "**/" + pattern
	}
	compiled, err := glob.Compile(pattern, fold)
	if err != nil {
		return nil, err
	}
	if !whole {
		return func(_, name string) bool { return compiled.Match(ctx, name) }, nil
	}
	prefix := strings.TrimSuffix(dir, "/") + "/"
	return func(path, _ string) bool { return compiled.Match(ctx, prefix+path) }, nil
}

// findings collects the found paths. It keeps only the part that may be shown, however many and long the paths are.
type findings struct {
	limit, count int64
	out          *truncate.Head
}

// search finds at most limit paths. Paths of directories end in a slash.
func (f *findings) search(ctx context.Context, files fs.FS, start string, matches func(path, name string) bool) error {
	return walk.Run(ctx, walk.Options{FS: files, Start: start, Visit: func(path string, e fs.DirEntry) error {
		if !matches(path, e.Name()) {
			return nil
		}
		if e.IsDir() {
			path += "/"
		}
		if f.count > 0 {
			path = "\n" + path
		}
		f.out.Write([]byte(path))
		if f.count++; f.count >= f.limit {
			return fs.SkipAll
		}
		return nil
	}})
}

func (f *findings) result() (schemas.ToolResult, error) {
	if f.count == 0 {
		return schemas.TextResult("No files found matching pattern"), nil
	}
	var notices []string
	var d details
	if f.count >= f.limit {
		notices = append(notices, fmt.Sprintf("%d results limit reached. Use limit=%d for more, or refine pattern", f.limit,
			2*f.limit))
		d.ResultLimitReached = f.limit
	}
	cut := f.out.Result()
	if cut.Truncated {
		notices = append(notices, listing.BytesNotice())
		d.Truncation = &cut
	}
	return listing.Result(cut.Content, notices, d)
}
