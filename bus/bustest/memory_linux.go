package bustest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	memoryDir    = "/dev/shm"
	memoryPrefix = "loopbus-test-"
	// memoryRoom is what has to be free there: many times what the tests of a package hold at once.
	memoryRoom = 4 << 30
)

// FilesInMemory has the temporary directories of this process's tests in memory, where the system has a file system
// there with room, and nobody has set TMPDIR or asked for benchmarks. Servers make and delete files by the thousand,
// which costs much on a disk; that they find them again when they are killed is the same. It belongs into TestMain, and
// done after the tests. What killed tests have left there goes with the next call.
func FilesInMemory() (done func(), err error) {
	if os.Getenv("TMPDIR") != "" || flag.Lookup("test.bench").Value.String() != "" || !hasRoom(memoryDir, memoryRoom) {
		return func() {}, nil
	}
	sweep(memoryDir)
	dir, lock, err := lockedDir(memoryDir)
	if err == nil {
		err = os.Setenv("TMPDIR", dir)
	}
	if err != nil {
		return nil, fmt.Errorf("bustest: temporary directory in memory: %w", err)
	}
	return func() {
		_ = os.RemoveAll(dir) // or the next one does
		_ = lock.Close()
	}, nil
}

func hasRoom(dir string, room uint64) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Bavail*uint64(s.Bsize) >= room && syscall.Access(dir, 2) == nil
}

// lockedDir makes a directory in parent whose lock this process holds until it ends: a sweep leaves it alone.
func lockedDir(parent string) (dir string, lock *os.File, err error) {
	for {
		if dir, err = os.MkdirTemp(parent, memoryPrefix); err != nil {
			return "", nil, err
		}
		if lock = tryLock(dir); lock != nil {
			if _, err := os.Stat(dir); err == nil {
				return dir, lock, nil
			}
			_ = lock.Close()
		}
		// A sweep has come between.
	}
}

// tryLock returns nil where another process has the lock, or the directory is gone.
func tryLock(dir string) *os.File {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		_ = f.Close()
		return nil
	}
	return f
}

// sweep removes the directories in parent of processes that have ended.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, memoryPrefix+"*")) // the pattern is a good one
	for _, dir := range dirs {
		if lock := tryLock(dir); lock != nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}
