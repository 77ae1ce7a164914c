package natsio

import (
	"context"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// applyTime is how long a leader may take, after its election, to apply what the leader of before has acknowledged.
	applyTime = time.Second
	// silence is the time for which a leader that hears nothing from most replicas is believed. Another one is not elected
	// within it: replicas wait four seconds for a heartbeat before they vote. Heartbeats come every second.
	silence = 3 * time.Second
)

// LeaderInfo returns the state of a stream that is not behind any acknowledgement. While the stream has no leader each
// replica answers with what it has, and so does a leader that was cut off and does not know yet: LeaderInfo asks again,
// for [AwayTimeout] at most. After that its error wraps [ErrBehind].
func LeaderInfo(ctx context.Context, js jetstream.JetStream, stream string,
	opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	until := time.Now().Add(AwayTimeout)
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	info := s.CachedInfo()
	for asked := len(opts) == 0; ; asked = true {
		if asked && leads(info) {
			return info, nil
		}
		if asked && (time.Now().After(until) || !Wait(ctx, RetryWait)) {
			return nil, fmt.Errorf("state of %s: it has no leader: %w", stream, ErrBehind)
		}
		if info, err = s.Info(ctx, opts...); err != nil {
			return nil, err
		}
	}
}

// leads reports whether a state is the one of a leader that has all that was acknowledged.
func leads(info *jetstream.StreamInfo) bool {
	replicas := info.Config.Replicas
	if replicas <= 1 {
		return true
	}
	c := info.Cluster
	if c == nil || c.LeaderSince == nil || info.TimeStamp.Sub(*c.LeaderSince) < applyTime {
		return false
	}
	heard := 1
	for _, r := range c.Replicas {
		seen := r.Active > 0 || r.Current // a replica that never answered was active for 0 s, says the server
		if seen && !r.Offline && r.Active < silence {
			heard++
		}
	}
	return 2*heard > replicas
}
