package nodeerr_test

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"testing"

	"github.com/loopbus/loopbus/tools/internal/nodeerr"
)

func TestErrorsAreWordedAsInNode(t *testing.T) {
	_, missing := os.Stat("/no/such/file")
	for _, c := range []struct {
		err      error
		op, path string
		want     string
	}{
		{missing, "access", "/no/such/file", "ENOENT: no such file or directory, access '/no/such/file'"},
		{&fs.PathError{Op: "read", Path: "d", Err: syscall.EISDIR}, "read", "",
			"EISDIR: illegal operation on a directory, read"},
		{&fs.PathError{Op: "open", Path: "p", Err: fs.ErrNotExist}, "open", "p",
			"ENOENT: no such file or directory, open 'p'"},
		{syscall.ENOTDIR, "access", "a/b", "ENOTDIR: not a directory, access 'a/b'"},
		{errors.New("something else"), "access", "p", "something else"},
	} {
		got := nodeerr.New(c.err, c.op, c.path)
		if got.Error() != c.want || !errors.Is(got, c.err) {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
	if err := nodeerr.New(nil, "access", "p"); err != nil {
		t.Errorf("no error became %v", err)
	}
}

func TestNullByte(t *testing.T) {
	for path, want := range map[string]string{
		"/tmp/a\x00b": `'/tmp/a\x00b'`,
		"/it's\x00":   `"/it's\x00"`,
		"/é\x00\n\\":  `'/é\x00\n\\'`,
	} {
		want = "The argument 'path' must be a string, Uint8Array, or URL without null bytes. Received " + want
		if got := nodeerr.NullByte(path).Error(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
