// Package nodeerr formats file errors as Node.js does. Models know these texts well, and the recorded behaviour of
// the tools contains them.
package nodeerr

import (
	"errors"
	"io/fs"
	"strings"
	"syscall"
)

// An Error is a failed file operation. Code is the symbolic errno. Its text is "CODE: description, op 'path'".
type Error struct {
	Code string
	Op   string // Node's name of the system call
	Path string // "" is left out
	Err  error

	description string
}

// Error formats the failure as Node does.
func (e *Error) Error() string {
	text := e.Code + ": " + e.description + ", " + e.Op
	if e.Path != "" {
		text += " '" + e.Path + "'"
	}
	return text
}

// Unwrap returns the error of the file system.
func (e *Error) Unwrap() error { return e.Err }

var known = []struct {
	errno             error
	code, description string
}{
	{syscall.ENOENT, "ENOENT", "no such file or directory"},
	{syscall.EACCES, "EACCES", "permission denied"},
	{syscall.EPERM, "EPERM", "operation not permitted"},
	{syscall.ENOTDIR, "ENOTDIR", "not a directory"},
	{syscall.EISDIR, "EISDIR", "illegal operation on a directory"},
	{syscall.EEXIST, "EEXIST", "file already exists"},
	{syscall.ELOOP, "ELOOP", "too many symbolic links encountered"},
	{syscall.ENAMETOOLONG, "ENAMETOOLONG", "name too long"},
	{syscall.EMFILE, "EMFILE", "too many open files"},
	{syscall.ENOSPC, "ENOSPC", "no space left on device"},
	{syscall.EROFS, "EROFS", "read-only file system"},
	{syscall.EIO, "EIO", "i/o error"},
}

// NullByte returns the error for a path with a null byte, which Node refuses without asking the system.
func NullByte(path string) error {
	quote := "'"
	if strings.Contains(path, "'") && !strings.Contains(path, `"`) {
		quote = `"`
	}
	shown := strings.NewReplacer("\x00", `\x00`, "\n", `\n`, "\t", `\t`, "\r", `\r`, `\`, `\\`).Replace(path)
	return errors.New("The argument 'path' must be a string, Uint8Array, or URL without null bytes. Received " + quote +
		shown + quote)
}

// New formats err, the error of the operation that Node calls op. It returns other errors, formatted ones and nil
// unchanged.
func New(err error, op, path string) error {
	if errors.As(err, new(*Error)) {
		return err
	}
	for _, k := range known {
		if errors.Is(err, k.errno) {
			return &Error{Code: k.code, Op: op, Path: path, Err: err, description: k.description}
		}
	}
	var pathErr *fs.PathError
	if errors.As(err, &pathErr) && errors.Is(err, fs.ErrNotExist) {
		return &Error{Code: "ENOENT", Op: op, Path: path, Err: err, description: "no such file or directory"}
	}
	return err
}
