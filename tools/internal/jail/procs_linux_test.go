package jail

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestProcsOf(t *testing.T) {
	t.Parallel()
	const mountinfo = `22 28 0:21 / /proc rw,relatime shared:5 - proc proc rw
23 28 0:22 / /sys rw,relatime shared:6 - sysfs sysfs rw
24 22 0:21 /sys /proc/sys ro - proc proc rw
40 28 0:21 / /srv/a\040root/proc rw,relatime shared:5 master:2 - proc proc rw
41 28 0:44 / /proc2 rw - proc none rw
42 28 0:45 / /mnt/proc rw - tmpfs proc rw
a line - that is none
`
	if d := cmp.Diff([]string{"/srv/a root/proc", "/proc2"}, procsOf(mountinfo)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
