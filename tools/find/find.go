// Package find is the tool that looks for files by name.
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

// DefaultLimit is how many files are found unless the call says otherwise.
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

// New returns the tool, which searches directories of the workspace. The caller keeps it open as long as the tool is
// used.
func New(w *workspace.Workspace) tools.Tool {
	return listing.Tool(Name, description, parameters, finder{w}.run)
}

type finder struct{ workspace *workspace.Workspace }

func (f finder) run(ctx context.Context, args arguments) (schemas.ToolResult, error) {
	limit := listing.Limit(args.Limit, DefaultLimit)
	dir := f.workspace.Resolve(args.Path)
	matches, err := matcher(args.Pattern, dir)
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
	found, err := search(ctx, files, start, matches, limit)
	if e := tools.Interrupted(ctx); e != nil {
		return schemas.ToolResult{}, e
	}
	if err != nil {
		return schemas.ToolResult{}, tools.Failf("Cannot read directory: %v", nodeerr.New(err, "scandir", dir))
	}
	return result(found, limit)
}

// matcher tells which paths below dir are looked for: a pattern with a slash is matched against whole paths, any other
// against names. One without a capital letter ignores case.
func matcher(pattern, dir string) (func(path, name string) bool, error) {
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
		return func(_, name string) bool { return compiled.Match(name) }, nil
	}
	prefix := strings.TrimSuffix(dir, "/") + "/"
	return func(path, _ string) bool { return compiled.Match(prefix + path) }, nil
}

// search returns at most limit paths, those of directories with a slash at their end.
func search(ctx context.Context, files fs.FS, start string, matches func(path, name string) bool,
	limit int64) (found []string, err error) {
	err = walk.Run(ctx, walk.Options{FS: files, Start: start, Visit: func(path string, e fs.DirEntry) error {
		if !matches(path, e.Name()) {
			return nil
		}
		if e.IsDir() {
			path += "/"
		}
		found = append(found, path)
		if int64(len(found)) >= limit {
			return fs.SkipAll
		}
		return nil
	}})
	return found, err
}

func result(found []string, limit int64) (schemas.ToolResult, error) {
	if len(found) == 0 {
		return schemas.TextResult("No files found matching pattern"), nil
	}
	var notices []string
	var d details
	if int64(len(found)) >= limit {
		notices = append(notices, fmt.Sprintf("%d results limit reached. Use limit=%d for more, or refine pattern", limit,
			2*limit))
		d.ResultLimitReached = limit
	}
	cut := truncate.Text(strings.Join(found, "\n"), truncate.NoLineLimit, truncate.MaxBytes)
	if cut.Truncated {
		notices = append(notices, listing.BytesNotice())
		d.Truncation = &cut
	}
	return listing.Result(cut.Content, notices, d)
}
