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
		if got := leads(info, 0); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	foreign := &jetstream.StreamInfo{Config: jetstream.StreamConfig{Replicas: 3}}
	if leads(foreign, time.Hour) {
		t.Error("an answer without a cluster is one of a leader")
	}
}

// TestAClockThatWasSetBackIsNoNewElection has a leader that was elected an hour after now by its own clock.
func TestAClockThatWasSetBackIsNoNewElection(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		state := func(leader string, ahead time.Duration) *jetstream.StreamInfo {
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
			info := state(step.leader, time.Hour)
			if got := seen.leads(answer{info, time.Now(), time.Now()}); got != step.want {
				t.Errorf("%s leads: %v, not %v", step.leader, got, step.want)
			}
			time.Sleep(applyTime)
		}
	})
}

// TestALeaderIsConfirmed has leaders that answer one after another. Each answer takes some time, and its sequence is
// its number. The clock of each leader was set back after its election.
func TestALeaderIsConfirmed(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, c := range map[string]struct {
		leaders string // of each answer; the last one goes on
		takes   []time.Duration
		ahead   time.Duration
		least   time.Duration
	}{
		"a healthy one":                          {"a", nil, -time.Hour, s},
		"one whose clock was set back":           {"a", nil, time.Hour, 2 * s},
		"deposed":                                {"ab", nil, -time.Hour, 2 * s},
		"deposed, while its answer is late":      {"ab", []time.Duration{8 * s}, -time.Hour, 9 * s},
		"suspended before its second answer":     {"aa", []time.Duration{0, 8 * s}, -time.Hour, 11 * s},
		"suspended and deposed in between":       {"aab", []time.Duration{0, 8 * s}, -time.Hour, 11 * s},
		"the first answer is late, the next not": {"aa", []time.Duration{8 * s}, -time.Hour, 9 * s},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				start, n := time.Now(), 0
				info, err := untilBelieved(t.Context(), "S", (*term).confirms, func() (answer, error) {
					a := answer{asked: time.Now()}
					if n < len(c.takes) {
						time.Sleep(c.takes[n])
					}
					leader := c.leaders[min(n, len(c.leaders)-1):][:1]
					n++
					since := start.Add(c.ahead)
					a.came, a.info = time.Now(), &jetstream.StreamInfo{
						Config: jetstream.StreamConfig{Replicas: 3}, TimeStamp: start,
						State: jetstream.StreamState{LastSeq: uint64(n)},
						Cluster: &jetstream.ClusterInfo{Leader: leader, LeaderSince: &since,
							Replicas: []*jetstream.PeerInfo{{Current: true, Active: s / 2}, {}}},
					}
					return a, nil
				})
				took := time.Since(start)
				if err != nil || info.Cluster.Leader != c.leaders[len(c.leaders)-1:] || took < c.least || took > c.least+s/2 {
					t.Errorf("state %+v after %s, error %v", info, took, err)
				}
			})
		})
	}
}
