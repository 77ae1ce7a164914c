package cli

import (
	"fmt"
	"io"
	"os"
)

// maxFile is the maximum size of the YAML file, which may contain a prompt.
const maxFile = 1 << 20

// readBounded returns the content of a file of at most [maxFile] bytes, whatever kind of file it is.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		err = fmt.Errorf("%s has more than %d bytes", path, maxFile)
	}
	return data, err
}
