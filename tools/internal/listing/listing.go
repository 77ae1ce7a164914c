// Package listing is what the tools have in common that list what they find: ls, find and grep.
package listing

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/truncate"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Tool returns a tool that only reads, named and described like this. run is given the arguments of a call that was not
// cancelled before it began.
func Tool[A any](name, description, parameters string,
	run func(context.Context, A) (schemas.ToolResult, error)) tools.Tool {
	def := schemas.ToolDefinition{
		Name: name, Label: name, Description: description, Parameters: json.RawMessage(parameters),
		Effect: schemas.EffectReadOnly, TimeoutMs: tools.DefaultReadTimeout.Milliseconds(),
	}
	return tools.Must(tools.Typed(def, func(ctx context.Context, _ tools.Call, args A) (schemas.ToolResult, error) {
		if err := tools.Interrupted(ctx); err != nil {
			return schemas.ToolResult{}, err
		}
		return run(ctx, args)
	}))
}

// Limit is how many results a call asks for, at least one; nil asks for as many as usual.
func Limit(asked *float64, usual int64) int64 {
	if asked == nil {
		return usual
	}
	return int64(min(max(*asked, 1), 1<<53))
}

// Stat describes what an absolute path leads to. Its error is for models.
func Stat(ctx context.Context, w *workspace.Workspace, path string) (fs.FileInfo, error) {
	info, err := w.Stat(ctx, path)
	switch {
	case errors.As(err, new(*workspace.DeniedError)):
		return nil, err
	case err != nil && ctx.Err() != nil:
		return nil, tools.Interrupted(ctx)
	case err != nil:
		return nil, tools.Failf("Path not found: %s", path)
	}
	return info, nil
}

// Directory returns an error for models if an absolute path does not lead to a directory.
func Directory(ctx context.Context, w *workspace.Workspace, path string) error {
	info, err := Stat(ctx, w, path)
	if err == nil && !info.IsDir() {
		err = tools.Failf("Not a directory: %s", path)
	}
	return err
}

// BytesNotice says that a list was cut for its size.
func BytesNotice() string { return truncate.Size(truncate.MaxBytes) + " limit reached" }

// Result is a list with the notices that belong to it. It has details only if there is something to notice.
func Result(list string, notices []string, details any) (schemas.ToolResult, error) {
	if len(notices) == 0 {
		return schemas.TextResult(list), nil
	}
	result := schemas.TextResult(list + "\n\n[" + strings.Join(notices, ". ") + "]")
	raw, err := schemas.Marshal(details)
	result.Details = raw
	return result, err
}
