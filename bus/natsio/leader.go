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

// LeaderInfo returns the state of a stream as its leader has it. While the stream has no leader each replica answers
// with what it has, and so does a leader that was cut off and does not know yet: LeaderInfo asks again, for
// [AwayTimeout] at most. After that its error wraps [ErrBehind].
//
// A leader that was suspended while another one was elected answers as if nothing had happened, for some milliseconds
// after it goes on. Whoever calls something lost for what the state does not have uses [ConfirmedInfo].
func LeaderInfo(ctx context.Context, js jetstream.JetStream, stream string,
	opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	until := time.Now().Add(AwayTimeout)
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	var seen term
	info := s.CachedInfo()
	for asked := len(opts) == 0; ; asked = true {
		if seen.observe(info, time.Now()); asked && seen.leads(info) {
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

// ConfirmedInfo is [LeaderInfo] of a leader that is still the leader a second later. It returns the later state. By
// then a leader that was suspended has heard from the one that was elected meanwhile. A stream without replicas needs
// no confirmation.
func ConfirmedInfo(ctx context.Context, js jetstream.JetStream, stream string,
	opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return confirmed(ctx, func() (*jetstream.StreamInfo, error) { return LeaderInfo(ctx, js, stream, opts...) })
}

// confirmed implements [ConfirmedInfo]. A second answer that took long may itself come from a leader that was
// suspended.
func confirmed(ctx context.Context, ask func() (*jetstream.StreamInfo, error)) (*jetstream.StreamInfo, error) {
	before, err := ask()
	for err == nil && before.Config.Replicas > 1 {
		if !Wait(ctx, applyTime) {
			return nil, context.Cause(ctx)
		}
		asked := time.Now()
		info, failed := ask()
		if failed == nil && sameTerm(before, info) && time.Since(asked) < applyTime {
			return info, nil
		}
		before, err = info, failed
	}
	return before, err
}

// term is the newest term of a leader that was seen, and when it was seen first, by the clock of this process.
type term struct {
	info  *jetstream.StreamInfo
	first time.Time
}

func (t *term) observe(info *jetstream.StreamInfo, now time.Time) {
	if t.info == nil || !sameTerm(t.info, info) {
		*t = term{info, now}
	}
}

// sameTerm reports whether two states come from one leader, and from one time that it was elected.
func sameTerm(a, b *jetstream.StreamInfo) bool {
	x, y := a.Cluster, b.Cluster
	return x != nil && y != nil && x.Leader == y.Leader && x.LeaderSince != nil && y.LeaderSince != nil &&
		x.LeaderSince.Equal(*y.LeaderSince)
}

// leads reports whether a state, the newest one of the term, is the one of a leader that has all that was acknowledged.
func (t *term) leads(info *jetstream.StreamInfo) bool {
	replicas := info.Config.Replicas
	if replicas <= 1 {
		return true
	}
	c := info.Cluster
	if c == nil || c.LeaderSince == nil {
		return false
	}
	// The clock of the leader may have been set back since its election: then the time since is less, or negative.
	if info.TimeStamp.Sub(*c.LeaderSince) < applyTime && time.Since(t.first) < applyTime {
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
