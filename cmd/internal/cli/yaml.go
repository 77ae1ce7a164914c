package cli

import (
	"fmt"
	"io"
	"os"
)

// maxFile is how many bytes the YAML file may have, in which a prompt may stand.
const maxFile = 1 << 20

// readBounded returns the content of a file that is no larger than [maxFile], whatever the file is.
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
