package bus_test

import (
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
)

func TestDurabilityIsWhatTheSettingsGive(t *testing.T) {
	for _, tt := range []struct {
		opts      bus.ServerOptions
		want      string
		pageCache bool
	}{
		{bus.ServerOptions{SyncAlways: true}, "survives a crash of the process and a loss of power", false},
		{bus.ServerOptions{}, "may lose what was acknowledged in the 2m0s", true},
		{bus.ServerOptions{SyncInterval: 5 * time.Second}, "may lose what was acknowledged in the 5s", true},
	} {
		tt.opts.StoreDir = t.TempDir()
		s, err := bus.StartServer(tt.opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		got, err := bus.DurabilityOf(deadline(t), connect(t, s), s)
		if err != nil || !strings.Contains(got.Text, tt.want) || got.PageCache != tt.pageCache {
			t.Errorf("%+v: %+v, %v", tt.opts, got, err)
		}
	}
}

// How often somebody else's server syncs cannot be seen, which is said.
func TestDurabilityOfAServerElsewhere(t *testing.T) {
	c := newBus(t)
	got, err := bus.DurabilityOf(deadline(t), c, nil)
	if err != nil || !strings.Contains(got.Text, "one replica") || !strings.Contains(got.Text, "cannot be seen") || !got.PageCache {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := bus.DurabilityOf(deadline(t), connect(t, startServer(t)), nil); err == nil {
		t.Error("streams that are not there have a durability")
	}
}
