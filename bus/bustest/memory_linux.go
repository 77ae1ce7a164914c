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
	// memoryRoom is the free space that the file system must have: many times what the tests of a package need.
	memoryRoom = 4 << 30
)

// FilesInMemory places the temporary directories of this process's tests in memory, if the system has a file system in
// memory with enough space, TMPDIR is not set and no benchmarks run. Servers create and delete thousands of files,
// which is slow on a disk; files in memory survive the kill of a server just as well. Call FilesInMemory in TestMain,
// and done after the tests. The next call deletes the directories that killed tests have left.
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
		_ = os.RemoveAll(dir) // the next call deletes what this one could not
		_ = lock.Close()
	}, nil
}

func hasRoom(dir string, room uint64) bool {
	var s syscall.Statfs_t
	return syscall.Statfs(dir, &s) == nil && s.Bavail*uint64(s.Bsize) >= room && syscall.Access(dir, 2) == nil
}

// lockedDir creates a directory in parent and locks it until the process ends, so that no sweep deletes it.
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
		// A sweep has deleted the directory before it was locked.
	}
}

// tryLock returns nil if another process has the lock, or the directory was deleted.
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

// sweep deletes the directories in parent whose processes have ended.
func sweep(parent string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, memoryPrefix+"*")) // the pattern is well formed
	for _, dir := range dirs {
		if lock := tryLock(dir); lock != nil {
			_ = os.RemoveAll(dir)
			_ = lock.Close()
		}
	}
}
