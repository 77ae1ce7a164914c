package keys

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"
)

// File is a file of keys: a JSON object from provider to key. It is read again when it has changed, so that keys can
// be replaced while the program runs.
type File struct {
	path string

	mu   sync.Mutex
	read time.Time // modification time of the version that was read
	size int64
	keys map[string]string
}

// OpenFile reads the file. On Unix, only its owner may be able to read it.
func OpenFile(path string) (*File, error) {
	f := &File{path: path}
	if _, err := f.current(); err != nil {
		return nil, err
	}
	return f, nil
}

// Has reports whether the file has a key for the provider.
func (f *File) Has(provider string) bool {
	keys, err := f.current()
	return err == nil && keys[provider] != ""
}

// Key is [Source.Key].
func (f *File) Key(_ context.Context, provider string) (string, error) {
	keys, err := f.current()
	return keys[provider], err
}

func (f *File) current() (map[string]string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err != nil {
		return nil, fmt.Errorf("file of keys: %w", err)
	}
	if runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		return nil, fmt.Errorf("file of keys %s: others may read it (mode %04o): chmod 600 %s", f.path, info.Mode().Perm(),
			f.path)
	}
	if f.keys != nil && info.ModTime().Equal(f.read) && info.Size() == f.size {
		return f.keys, nil
	}
	data, err := os.ReadFile(f.path)
	if err != nil {
		return nil, fmt.Errorf("file of keys: %w", err)
	}
	keys := map[string]string{}
	if err := json.Unmarshal(data, &keys); err != nil {
		return nil, fmt.Errorf("file of keys %s: %w", f.path, withoutContent(err))
	}
	f.keys, f.read, f.size = keys, info.ModTime(), info.Size()
	return keys, nil
}

// withoutContent returns the JSON error without the piece of the file that some errors quote.
func withoutContent(err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		return fmt.Errorf("no JSON at byte %d", syntax.Offset)
	}
	return errors.New("not an object of provider and key")
}
