// Package grep is the tool that searches the contents of files.
package grep

import (
	"context"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/listing"
	"github.com/loopbus/loopbus/tools/internal/truncate"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Name is the tool's name.
const Name = "grep"

// DefaultLimit is the default number of matching lines.
const DefaultLimit = 100

const parameters = `{
  "type": "object",
  "properties": {
    "pattern": {"type": "string", "description": "Search pattern (regex or literal string)"},
    "path": {"type": "string", "description": "Directory or file to search (default: current directory)"},
    "glob": {"type": "string", "description": "Filter files by glob pattern, e.g. '*.ts' or '**/*.spec.ts'"},
    "ignoreCase": {"type": "boolean", "description": "Case-insensitive search (default: false)"},
    "literal": {"type": "boolean", "description": "Treat pattern as literal string instead of regex (default: false)"},
    "context": {"type": "number", "description": "Number of lines to show before and after each match (default: 0)"},
    "limit": {"type": "number", "description": "Maximum number of matches to return (default: 100)"}
  },
  "required": ["pattern"]
}`

const description = "Search file contents for a pattern. Returns matching lines with file paths and line numbers. " +
	"Respects .gitignore. Output is truncated to 100 matches or 50KB (whichever is hit first). Long lines are truncated " +
	"to 500 chars."

type arguments struct {
	Pattern    string   `json:"pattern"`
	Path       string   `json:"path"`
	Glob       string   `json:"glob"`
	IgnoreCase bool     `json:"ignoreCase"`
	Literal    bool     `json:"literal"`
	Context    float64  `json:"context"`
	Limit      *float64 `json:"limit"`
}

// context returns how many lines to show around a match. They are kept in memory, and each match writes them again; so
// the limit is the number of lines that the other tools show.
func (a arguments) context() int { return int(min(max(a.Context, 0), truncate.MaxLines)) }

// New returns the tool, which searches files of the workspace. The caller must keep the workspace open while the tool
// is in use.
func New(w *workspace.Workspace) tools.Tool {
	return listing.Tool(Name, description, parameters, searcher{w}.run)
}

type searcher struct{ workspace *workspace.Workspace }

func (s searcher) run(ctx context.Context, args arguments) (schemas.ToolResult, error) {
	pattern, err := compile(args)
	if err != nil {
		return schemas.ToolResult{}, err
	}
	found := newFindings(listing.Limit(args.Limit, DefaultLimit), args.context())
	err = s.search(ctx, args, newScanner(pattern, found))
	if e := tools.Interrupted(ctx); e != nil {
		return schemas.ToolResult{}, e
	}
	if err != nil {
		return schemas.ToolResult{}, err
	}
	return found.result()
}
