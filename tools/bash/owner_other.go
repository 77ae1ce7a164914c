//go:build !unix

package bash

import "io/fs"

// OwnedByUser returns true: on this system each user has an own directory for temporary files.
func OwnedByUser(fs.FileInfo) bool { return true }
