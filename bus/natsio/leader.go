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
	return ask(ctx, js, stream, (*term).leads, opts)
}

// ConfirmedInfo is [LeaderInfo] of a leader that says so again a second later; it returns the later state. By then a
// leader that was suspended has heard from the one that was elected meanwhile. It takes as long as that, so whoever
// finds what it looks for uses [LeaderInfo]. A stream without replicas needs no confirmation.
//
// It does not see through a leader that is suspended again in this second.
func ConfirmedInfo(ctx context.Context, js jetstream.JetStream, stream string,
	opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	return ask(ctx, js, stream, (*term).confirms, opts)
}

func ask(ctx context.Context, js jetstream.JetStream, stream string, believe func(*term, answer) bool,
	opts []jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	asked := time.Now()
	s, err := js.Stream(ctx, stream)
	if err != nil {
		return nil, err
	}
	first := s.CachedInfo()
	return untilBelieved(ctx, stream, believe, func() (a answer, err error) {
		if len(opts) == 0 && first != nil {
			a = answer{first, asked, time.Now()}
			first = nil
			return a, nil
		}
		a.asked = time.Now()
		a.info, err = s.Info(ctx, opts...)
		a.came = time.Now()
		return a, err
	})
}

// untilBelieved returns the first answer that is believed.
func untilBelieved(ctx context.Context, stream string, believe func(*term, answer) bool,
	next func() (answer, error)) (*jetstream.StreamInfo, error) {
	var seen term
	for until := time.Now().Add(AwayTimeout); ; {
		a, err := next()
		if err != nil {
			return nil, err
		}
		if believe(&seen, a) {
			return a.info, nil
		}
		pause := RetryWait
		if seen.before.info != nil { // earlier it is not confirmed
			pause = applyTime
		}
		if time.Now().After(until) || !Wait(ctx, pause) {
			return nil, fmt.Errorf("state of %s: it has no leader: %w", stream, ErrBehind)
		}
	}
}

// answer is a state, and when it was asked for and came, by the clock of this process.
type answer struct {
	info        *jetstream.StreamInfo
	asked, came time.Time
}

// term is the newest term of a leader that was seen: its first answer, and its newest one that a later one may confirm.
type term struct {
	first, before answer
}

// leads reports whether the next answer is the one of a leader that has all that was acknowledged.
func (t *term) leads(a answer) bool {
	if t.first.info == nil || !sameTerm(t.first.info, a.info) {
		*t = term{first: a}
	}
	return leads(a.info, a.came.Sub(t.first.came))
}

// confirms reports whether the next answer leads and confirms one of at least a second before. No other leader was
// elected between the two, because both together took less than [silence].
func (t *term) confirms(a answer) bool {
	switch leads := t.leads(a); {
	case !leads || a.info.Config.Replicas <= 1:
		return leads
	case a.came.Sub(a.asked) >= applyTime:
		return false
	case t.before.info == nil || a.came.Sub(t.before.asked) >= silence:
		t.before = a
		return false
	}
	return a.asked.Sub(t.before.came) >= applyTime
}

// sameTerm reports whether two states come from one leader, and from one time that it was elected.
func sameTerm(a, b *jetstream.StreamInfo) bool {
	x, y := a.Cluster, b.Cluster
	return x != nil && y != nil && x.Leader == y.Leader && x.LeaderSince != nil && y.LeaderSince != nil &&
		x.LeaderSince.Equal(*y.LeaderSince)
}

// leads reports whether a state is the one of a leader that has all that was acknowledged. seen is for how long its
// term has been seen, at least.
func leads(info *jetstream.StreamInfo, seen time.Duration) bool {
	replicas := info.Config.Replicas
	if replicas <= 1 {
		return true
	}
	c := info.Cluster
	if c == nil || c.LeaderSince == nil {
		return false
	}
	// The clock of the leader may have been set back since its election: then the time since is less, or negative.
	if info.TimeStamp.Sub(*c.LeaderSince) < applyTime && seen < applyTime {
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
