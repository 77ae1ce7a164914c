//go:build !unix

package bash

import "io/fs"

// ours returns true: on this system each user has an own directory for temporary files.
func ours(fs.FileInfo) bool { return true }
