package jail

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// otherProcs are the places besides /proc where processes are shown, those of all the machine: in the tree of a
// container, for example. Commands could read the environment of the worker there.
func otherProcs() ([]string, error) {
	raw, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, fmt.Errorf("look at what is mounted: %w", err)
	}
	return procsOf(string(raw)), nil
}

// procsOf reads proc(5)'s mountinfo: the fifth field is the place, and the kind comes after a lonely dash.
func procsOf(mountinfo string) (places []string) {
	for line := range strings.Lines(mountinfo) {
		front, back, _ := strings.Cut(line, " - ")
		fields, kind := strings.Fields(front), strings.Fields(back)
		if len(fields) < 5 || len(kind) == 0 || kind[0] != "proc" {
			continue
		}
		place := unescape(fields[4])
		if place != "/proc" && !strings.HasPrefix(place, "/proc/") {
			places = append(places, place)
		}
	}
	return places
}

// unescape puts characters in for \ and three octal digits.
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
