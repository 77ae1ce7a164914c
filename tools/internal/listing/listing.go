// Package listing contains what the listing tools ls, find and grep have in common.
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

// Tool returns a read-only tool with the given name and description. run receives the arguments of a call that was
// not cancelled before it started.
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

// Limit returns the requested number of results, at least one; nil selects the usual number.
func Limit(asked *float64, usual int64) int64 {
	if asked == nil {
		return usual
	}
	return int64(min(max(*asked, 1), 1<<53))
}

// Stat describes the target of an absolute path. Its error is for models.
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

// BytesNotice returns the notice that a list was cut because of its size.
func BytesNotice() string { return truncate.Size(truncate.MaxBytes) + " limit reached" }

// Result returns a list with its notices. It has details only if there are notices.
func Result(list string, notices []string, details any) (schemas.ToolResult, error) {
	if len(notices) == 0 {
		return schemas.TextResult(list), nil
	}
	result := schemas.TextResult(list + "\n\n[" + strings.Join(notices, ". ") + "]")
	raw, err := schemas.Marshal(details)
	result.Details = raw
	return result, err
}
