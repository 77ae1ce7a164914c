// Package edit is the tool that replaces pieces of a text file.
//
// A piece is searched for literally, and otherwise ignoring the differences that models make when they repeat a text:
// white space at the ends of lines, and typographic characters. It must be unique. What is not replaced stays
// unchanged, byte for byte.
package edit

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/internal/nodeerr"
	"github.com/loopbus/loopbus/tools/internal/room"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Name is the tool's name.
const Name = "edit"

const parameters = `{
  "type": "object",
  "properties": {
    "path": {"type": "string", "description": "Path of the file to edit (relative or absolute)"},
    "edits": {
      "type": "array",
      "description": "Replacements. Each is matched against the original file, not after the others are applied. ` +
	`They must not overlap; merge those that touch the same lines.",
      "items": {
        "type": "object",
        "properties": {
          "oldText": {"type": "string", "description": "Exact text to replace. It must be unique in the file."},
          "newText": {"type": "string", "description": "Text to put in its place"}
        },
        "required": ["oldText", "newText"],
        "additionalProperties": false
      }
    }
  },
  "required": ["path", "edits"],
  "additionalProperties": false
}`

const description = "Edit a file by replacing exact text. Each edits[].oldText must occur exactly once in the " +
	"original file. Use one call with several edits for several places in one file. Keep oldText as short as possible " +
	"while unique."

const (
	// maxFile is the largest file in bytes that is edited: up to six copies of it are in memory.
	maxFile = 32 << 20
	// maxSmall is how many bytes of a file and its new texts are edited without waiting for room. What has more than
	// maxTogether waits in a room of its own.
	maxSmall    = 256 << 10
	maxTogether = 2 << 20
	// maxWork limits what an edit takes beside copies of the file: for parts of views, lines and their comparison.
	maxWork = 128 << 20
)

type arguments struct {
	Path  string        `json:"path"`
	Edits []replacement `json:"edits"`
}

type details struct {
	Diff             string `json:"diff"`
	FirstChangedLine int    `json:"firstChangedLine,omitempty"`
}

// New returns the tool, which edits files of the workspace. The caller must keep the workspace open while the tool is
// in use.
//
// An unknown argument is refused by name, after the names of other tools have been mapped: a model that uses
// replace_all gets an error that says so instead of finding out from the file. The tool validates arguments against
// its own parameters, because a vendor's form of the schema may not be able to close the object.
//
// Executing a call twice is unsafe: the new text may contain the old one and would be inserted again, or the second
// call would fail because the old text is gone. Calls for the same file wait for each other, and for writes, within
// this process.
func New(w *workspace.Workspace) tools.Tool {
	return tools.Must(tools.Typed(schemas.ToolDefinition{
		Name: Name, Label: Name, Description: description, Parameters: json.RawMessage(parameters),
		Effect: schemas.EffectUnsafe, ArgumentRewrites: rewrites(),
	}, editor{w, room.Edits, room.LargeEdits}.execute))
}

// rewrites maps the argument names of other tools, a list sent as text, and a single replacement without a list.
func rewrites() []schemas.ArgumentRewrite {
	list := []schemas.ArgumentRewrite{
		schemas.RenameArgument("path", "file_path"),
		{Op: schemas.RewriteParse, To: "edits"},
	}
	for _, in := range []string{"", "edits"} {
		list = append(list,
			schemas.ArgumentRewrite{Op: schemas.RewriteRename, From: []string{"old_text", "old_string", "old_str"},
				To: "oldText", In: in},
			schemas.ArgumentRewrite{Op: schemas.RewriteRename, From: []string{"new_text", "new_string", "new_str"},
				To: "newText", In: in})
	}
	return append(list, schemas.ArgumentRewrite{Op: schemas.RewriteGather, From: []string{"oldText", "newText"},
		To: "edits"})
}

type editor struct {
	workspace *workspace.Workspace
	room      room.Room
	large     room.Room // of what has more than maxTogether
}

func (e editor) execute(ctx context.Context, _ tools.Call, args arguments) (schemas.ToolResult, error) {
	if len(args.Edits) == 0 {
		return schemas.ToolResult{}, tools.Failure("Edit tool input is invalid. edits must contain at least one replacement.")
	}
	if err := tools.Interrupted(ctx); err != nil {
		return schemas.ToolResult{}, err
	}
	path := e.workspace.Resolve(args.Path)
	if strings.IndexByte(path, 0) >= 0 {
		return schemas.ToolResult{}, tools.Failf("Could not edit file: %s. Error code: ERR_INVALID_ARG_VALUE.", args.Path)
	}
	var d details
	err := e.workspace.Exclusive(ctx, path, func() (err error) {
		d, err = e.edit(ctx, path, args)
		return err
	})
	if err != nil {
		return schemas.ToolResult{}, refusal(err, args.Path)
	}
	result := schemas.TextResult(fmt.Sprintf("Successfully replaced %d block(s) in %s.", len(args.Edits), args.Path))
	result.Details, err = schemas.Marshal(d)
	return result, err
}

// refusal formats the error of a file that cannot be opened. Errors of reading and writing are formatted already.
func refusal(err error, path string) error {
	var node *nodeerr.Error
	if worded := errors.As(err, &node); !worded && errors.As(nodeerr.New(err, "access", path), &node) {
		return tools.Failf("Could not edit file: %s. Error code: %s.", path, node.Code)
	}
	return err
}

// edit reads the file, applies the edits and writes it. The caller must hold the queue of the file.
func (e editor) edit(ctx context.Context, path string, args arguments) (d details, err error) {
	info, err := e.workspace.Stat(ctx, path)
	switch {
	case err != nil:
		return d, err
	case info.IsDir():
		return d, tools.Failure("EISDIR: illegal operation on a directory, read")
	case !info.Mode().IsRegular(): // reading a pipe may never end
		return d, tools.Failf("Not a regular file: %s", path)
	case info.Size() > maxFile:
		return d, tooLarge(args.Path)
	}
	file, err := e.workspace.OpenFile(ctx, path, os.O_RDWR, 0)
	if err != nil {
		return d, err
	}
	defer func() {
		if e := file.Close(); err == nil && e != nil {
			err = nodeerr.New(e, "close", path)
		}
	}()
	if size := size(info.Size(), args.Edits); size > maxSmall {
		in := e.room
		if size > maxTogether {
			in = e.large
		}
		leave, err := in.Take(ctx, 6*size+min(50*size, maxWork))
		if err != nil {
			return d, tools.Interrupted(ctx)
		}
		defer leave()
	}
	content, err := read(file, info.Size())
	if err != nil {
		return d, nodeerr.New(err, "read", "")
	}
	if len(content) > maxFile { // it has grown
		return d, tooLarge(args.Path)
	}
	o, err := apply(ctx, args.Path, content, args.Edits)
	if err != nil {
		return d, err
	}
	if err := tools.Interrupted(ctx); err != nil {
		return d, err
	}
	if err := workspace.Replace(file, o.content); err != nil {
		return d, nodeerr.New(err, "write", path)
	}
	d.Diff, d.FirstChangedLine = diff(o.old, o.new)
	return d, nil
}

// size returns how many bytes a file and the new texts have together.
func size(file int64, edits []replacement) int64 {
	for _, e := range edits {
		file += int64(len(e.NewText))
	}
	return file
}

func tooLarge(path string) error {
	return tools.Failf("Could not edit file: %s. It is larger than %d bytes. Use another tool, such as sed.", path,
		maxFile)
}

// read reads a file of about a size, at most maxFile bytes and one more.
func read(file io.Reader, size int64) ([]byte, error) {
	var content bytes.Buffer
	content.Grow(int(min(size, maxFile)) + 2*bytes.MinRead)
	_, err := content.ReadFrom(io.LimitReader(file, maxFile+1))
	return content.Bytes(), err
}
