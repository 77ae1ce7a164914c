package natsio

import (
	"testing"
	"testing/synctest"
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
		if got := (&term{info, time.Now()}).leads(info); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	foreign := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}}
	if (&term{foreign, time.Now().Add(-time.Hour)}).leads(foreign) {
		t.Error("an answer without a cluster is one of a leader")
	}
}

// TestAClockThatWasSetBackIsNoNewElection has a leader that was elected an hour after now by its own clock.
func TestAClockThatWasSetBackIsNoNewElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := func(leader string, ahead time.Duration) *jetstream.StreamInfo {
			since := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			return &jetstream.StreamInfo{
				Config: jetstream.StreamConfig{Replicas: 3}, TimeStamp: since.Add(-ahead),
				Cluster: &jetstream.ClusterInfo{Leader: leader, LeaderSince: &since,
					Replicas: []*jetstream.PeerInfo{{Current: true, Active: time.Second / 2}, {}}},
			}
		}
		var seen term
		for _, step := range []struct {
			leader string
			want   bool
		}{{"n1", false}, {"n1", true}, {"n2", false}, {"n2", true}} {
			info := answer(step.leader, time.Hour)
			seen.observe(info, time.Now())
			if got := seen.leads(info); got != step.want {
				t.Errorf("%s leads: %v, not %v", step.leader, got, step.want)
			}
			time.Sleep(applyTime)
		}
	})
}

// TestALeaderIsConfirmed has a leader that answers once after it was suspended, and one whose second answer is late.
func TestALeaderIsConfirmed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		since := time.Now()
		asked := 0
		info, err := confirmed(t.Context(), func() (*jetstream.StreamInfo, error) {
			asked++
			leader := "deposed"
			if asked > 1 {
				leader = "elected"
			}
			if asked == 3 {
				time.Sleep(8 * time.Second)
			}
			return &jetstream.StreamInfo{
				Config: jetstream.StreamConfig{Replicas: 3}, State: jetstream.StreamState{LastSeq: uint64(asked)},
				Cluster: &jetstream.ClusterInfo{Leader: leader, LeaderSince: &since},
			}, nil
		})
		if err != nil || info.State.LastSeq != 4 {
			t.Errorf("state %+v of answer 4 expected, error %v", info, err)
		}
	})
}
