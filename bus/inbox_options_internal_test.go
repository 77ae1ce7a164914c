package bus

import (
	"strings"
	"testing"
	"time"
)

// Whoever is suspended notices after a second; until then nobody else may have its sessions. See loop/driver/standing.go.
const noticed = time.Second

func TestTheTimesOfATakeover(t *testing.T) {
	for _, takeover := range []time.Duration{0, MinTakeover, 7500 * time.Millisecond, 2 * time.Minute, MaxTakeover} {
		o, err := InboxOptions{RunnerID: "r1", Takeover: takeover}.withDefaults()
		if err != nil {
			t.Errorf("%s: %v", takeover, err)
			continue
		}
		if last := max(o.AckWait, o.PinnedTTL, o.MemberTTL+time.Second); last > o.Takeover*4/5 {
			t.Errorf("%s: the last of it ends after %s, and the delivery needs time too", o.Takeover, last)
		}
		if first := min(o.AckWait*2/3, o.PinnedTTL/2, o.MemberTTL*3/4); first <= noticed {
			t.Errorf("%s: somebody else may take over after %s", o.Takeover, first)
		}
	}
	o, err := InboxOptions{RunnerID: "r1"}.withDefaults()
	if err != nil || o.Takeover != 10*time.Second || o.AckWait != 6*time.Second || o.PinnedTTL != 4*time.Second || o.MemberTTL != 4*time.Second {
		t.Errorf("the defaults are %+v, %v", o, err)
	}
	for _, takeover := range []time.Duration{time.Second, -time.Minute, time.Hour} {
		_, err := InboxOptions{RunnerID: "r1", Takeover: takeover}.withDefaults()
		if err == nil || !strings.Contains(err.Error(), "is not between 6s and 10m0s") {
			t.Errorf("%s: error %v", takeover, err)
		}
	}
}
