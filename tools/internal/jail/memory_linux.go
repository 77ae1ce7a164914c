package jail

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// memoryFile returns a file in memory with these contents, to be read from its beginning. A list of any length fits in
// it, while the kernel bounds a command line.
func memoryFile(name string, data []byte, flags int) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, flags)
	if err != nil {
		return nil, fmt.Errorf("make the file in memory %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err = file.Write(data); err == nil {
		_, err = file.Seek(0, 0)
	}
	if err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("write the file in memory %s: %w", name, err)
	}
	return file, nil
}
