package workspace

import (
	"bufio"
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// procRoot is the inode of the root of every procfs.
const procRoot = 1

// ofProcess reports whether a directory is in a procfs and not its root: it may be that of a process, whose environment
// has credentials.
func ofProcess(dir fs.FileInfo) bool {
	info, ok := dir.Sys().(*syscall.Stat_t)
	return ok && info.Ino != procRoot && procDevices()[uint64(info.Dev)] //nolint:unconvert // not on every architecture
}

// procDevices returns the devices of the procfs that are mounted when the first directory is opened.
var procDevices = sync.OnceValue(func() map[uint64]bool {
	mounts, _ := os.ReadFile("/proc/self/mountinfo") // without a procfs there is none to deny
	devices := map[uint64]bool{}
	for lines := bufio.NewScanner(bytes.NewReader(mounts)); lines.Scan(); {
		mount, kind, _ := strings.Cut(lines.Text(), " - ")
		var id, parent int
		var major, minor uint32
		if !strings.HasPrefix(kind, "proc ") {
			continue
		}
		if _, err := fmt.Sscanf(mount, "%d %d %d:%d ", &id, &parent, &major, &minor); err == nil {
			devices[unix.Mkdev(major, minor)] = true
		}
	}
	return devices
})
