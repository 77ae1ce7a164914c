package embedded

import (
	"fmt"
	"os"
	"path/filepath"
)

// lockName is the file whose lock says that a server uses the directory: nats-server itself would let a second one in,
// and the two would destroy the streams.
const lockName = "loopbus.lock"

// lockDir makes dir and takes it for this server. The system gives it free when the file is closed or the process ends.
func lockDir(dir string) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store directory: %w", err)
	}
	f, err := openExclusive(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("store directory %s is in use by another server, or cannot be locked: %w", dir, err)
	}
	return f, nil
}
