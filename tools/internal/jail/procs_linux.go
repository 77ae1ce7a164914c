package jail

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// otherProcs returns the mount points of proc file systems other than /proc, for example in the tree of a container.
// They show all processes of the machine, so that commands could read the environment of the worker.
func otherProcs() ([]string, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("read the list of mounts: %w", err)
	}
	return procsOf(string(raw)), nil
}

// procsOf parses mountinfo, see proc(5): the fifth field is the mount point, and the type follows a separate dash.
func procsOf(mountinfo string) (points []string) {
	for line := range strings.Lines(mountinfo) {
		front, back, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(front), strings.Fields(back)
		if len(fields) < 5 || len(kind) == 0 || kind[0] != "proc" {
			continue
		}
		point := unescape(fields[4])
		if point != "/proc" && !strings.HasPrefix(point, "/proc/") {
			points = append(points, point)
		}
	}
	return points
}

// unescape replaces \ and three octal digits by the character that they stand for.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+4 <= len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
