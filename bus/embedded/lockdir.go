package embedded

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/loopbus/loopbus/schemas"
)

// lockDir makes dir, marks it and takes it for this server: nats-server itself would let a second one in, and the two
// would destroy the streams. The system gives it free when the file is closed or the process ends. The mark stays.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store directory: %w", err)
	}
	f, err := openExclusive(filepath.Join(dir, schemas.StoreMark))
	if err != nil {
		return nil, fmt.Errorf("store directory %s is in use by another server, or cannot be locked: %w", dir, err)
	}
	return f, nil
}
