package embedded_test

import (
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/embedded"
)

func TestDurabilityIsWhatTheSettingsGive(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		opts      embedded.Options
		want      string
		pageCache bool
	}{
		{embedded.Options{SyncAlways: true}, "survives a crash of the process and a loss of power", false},
		{embedded.Options{}, "may lose what was acknowledged in the 2m0s", true},
		{embedded.Options{SyncInterval: 5 * time.Second}, "may lose what was acknowledged in the 5s", true},
	} {
		tt.opts.StoreDir = t.TempDir()
		s, err := embedded.Start(tt.opts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Shutdown)
		got := s.Durability()
		if !strings.Contains(got.Text, tt.want) || got.PageCache != tt.pageCache {
			t.Errorf("%+v: %+v", tt.opts, got)
		}
	}
}
