//go:build !linux

package bustest

// FilesInMemory does nothing: it is implemented on Linux only.
func FilesInMemory() (done func(), err error) { return func() {}, nil }
