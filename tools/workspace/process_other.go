//go:build !linux

package workspace

import "io/fs"

// ofProcess returns false: other systems have no files with the environment of a process.
func ofProcess(fs.FileInfo) bool { return false }
