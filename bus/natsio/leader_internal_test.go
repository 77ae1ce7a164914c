package natsio

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

func TestLeads(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ago := func(d time.Duration) *time.Time { at := now.Add(-d); return &at }
	near := &jetstream.PeerInfo{Current: true, Active: time.Second / 2}
	lagging := &jetstream.PeerInfo{Active: time.Second, Lag: 7}
	silent := &jetstream.PeerInfo{Current: true, Active: 4 * time.Second}
	offline := &jetstream.PeerInfo{Current: true, Active: time.Second, Offline: true}
	never := &jetstream.PeerInfo{Lag: 7}
	for _, c := range []struct {
		name     string
		replicas int
		since    *time.Time
		peers    []*jetstream.PeerInfo
		want     bool
	}{
		{"one server", 1, nil, nil, true},
		{"a leader", 3, ago(time.Hour), []*jetstream.PeerInfo{near, near}, true},
		{"a leader with one replica that is away", 3, ago(time.Hour), []*jetstream.PeerInfo{near, offline}, true},
		{"a leader with a replica that lags", 3, ago(time.Hour), []*jetstream.PeerInfo{lagging, silent}, true},
		{"no leader", 3, nil, []*jetstream.PeerInfo{near, near}, false},
		{"a leader that was just elected", 3, ago(time.Second / 2), []*jetstream.PeerInfo{near, near}, false},
		{"a leader that is cut off", 3, ago(time.Hour), []*jetstream.PeerInfo{silent, silent}, false},
		{"two that are offline", 3, ago(time.Hour), []*jetstream.PeerInfo{offline, offline}, false},
		{"one that never answered, one that is silent", 3, ago(time.Hour), []*jetstream.PeerInfo{never, silent}, false},
		{"two of five", 5, ago(time.Hour), []*jetstream.PeerInfo{near, silent, silent, silent}, false},
	} {
		info := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: c.replicas}, TimeStamp: now,
			Cluster: &jetstream.ClusterInfo{LeaderSince: c.since, Replicas: c.peers}}
		if got := leads(info); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if leads(&jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}}) {
		t.Error("an answer without a cluster is one of a leader")
	}
}
