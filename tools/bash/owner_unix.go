//go:build unix

package bash

import (
	"io/fs"
	"os"
	"syscall"
)

// OwnedByUser reports whether a file belongs to the user of this process.
func OwnedByUser(info fs.FileInfo) bool {
	st, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(st.Uid) == os.Geteuid()
}
