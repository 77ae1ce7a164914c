// Package write is the tool that writes whole files.
package write

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"unicode/utf16"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Name is the tool's name.
const Name = "write"

const parameters = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "Path of the file to write (relative or absolute)"},
    "content": {"type": "string", "description": "Content to write to the file"}
  },
  "required": ["path", "content"]
}`

const description = "Write content to a file. Creates the file if it does not exist, overwrites it if it does. " +
	"Creates missing parent directories."

type arguments struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// New returns the tool, which writes files of the workspace. The caller must keep the workspace open while the tool
// is in use.
//
// It is idempotent: a call contains the whole content of the file, so executing it again after a worker has died
// leaves the same file. Calls for the same file wait for each other, and for edits, within this process.
func New(w *workspace.Workspace) tools.Tool {
	return tools.Must(tools.Typed(schemas.ToolDefinition{
		Name: Name, Label: Name, Description: description, Parameters: json.RawMessage(parameters),
		Effect:           schemas.EffectIdempotent,
		ArgumentRewrites: []schemas.ArgumentRewrite{schemas.RenameArgument("path", "file_path")},
	}, writer{w}.execute))
}

type writer struct{ workspace *workspace.Workspace }

func (w writer) execute(ctx context.Context, _ tools.Call, args arguments) (schemas.ToolResult, error) {
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	path := w.workspace.Resolve(args.Path)
	if strings.IndexByte(path, 0) >= 0 {
		return schemas.ToolResult{}, nodeerr.NullByte(path)
	}
	if err := w.prepare(ctx, path); err != nil {
		return schemas.ToolResult{}, err
	}
	err := w.workspace.Exclusive(ctx, path, func() error { return w.write(ctx, path, args.Content) })
	if err != nil {
		return schemas.ToolResult{}, nodeerr.New(err, "open", path)
	}
	units := 0 // what the tool has always called bytes
	for _, r := range args.Content {
		units += utf16.RuneLen(r)
	}
	return schemas.TextResult(fmt.Sprintf("Successfully wrote %d bytes to %s", units, args.Path)), nil
}

// prepare makes the directories that are missing, and refuses what is there and no file.
func (w writer) prepare(ctx context.Context, path string) error {
	info, err := w.workspace.Stat(ctx, path)
	switch dir := filepath.Dir(path); {
	case errors.As(err, new(*workspace.DeniedError)):
		return err
	case err != nil:
		return nodeerr.New(w.workspace.MkdirAll(ctx, dir, 0o777), "mkdir", dir)
	case info.IsDir():
		return nodeerr.New(syscall.EISDIR, "open", path)
	case !info.Mode().IsRegular(): // opening a pipe waits for a reader, perhaps for ever
		return tools.Failf("Not a regular file: %s", path)
	}
	return nil
}

func (w writer) write(ctx context.Context, path, content string) error {
	// It is read too where that is allowed: see [workspace.Replace].
	file, err := w.workspace.OpenFile(ctx, path, os.O_RDWR|os.O_CREATE, 0o666)
	if errors.Is(err, fs.ErrPermission) {
		file, err = w.workspace.OpenFile(ctx, path, os.O_WRONLY|os.O_CREATE, 0o666)
	}
	if err != nil {
		return err
	}
	err = errors.Join(workspace.Replace(file, []byte(content)), file.Close())
	return nodeerr.New(err, "write", path)
}
