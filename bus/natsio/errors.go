package natsio

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// TooMany reports whether a server has refused a message because too many messages of the stream wait to be stored, for
// example because a client floods it.
func TooMany(err error) bool {
	const code = 10167
	return HasCode(err, code)
}

// Leaderless reports whether a server has refused a request because the cluster has no leader for it at this moment.
func Leaderless(err error) bool {
	const code = 10008
	return HasCode(err, code)
}

// Passing reports whether an error is transient: it goes away when the server is back or less busy, or when the cluster
// has elected a leader.
func Passing(err error) bool {
	return TooMany(err) || Leaderless(err) ||
		IsAny(err, ErrBehind, ErrConsumerLost, nats.ErrNoResponders, nats.ErrTimeout, nats.ErrReconnectBufExceeded,
			nats.ErrDisconnected, nats.ErrConnectionReconnecting, nats.ErrStaleConnection, jetstream.ErrNoStreamResponse,
			context.DeadlineExceeded)
}

// IsAny reports whether [errors.Is] is true of an error and any of the targets.
func IsAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// HasCode reports whether an error is one of the JetStream API with one of these codes: a [jetstream.APIError], or a
// [nats.APIError] of the older API.
func HasCode(err error, codes ...jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	var old *nats.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode) ||
		errors.As(err, &old) && slices.Contains(codes, jetstream.ErrorCode(old.ErrorCode))
}

// Added returns the value of a header that the server has added to a message, "" if there is none. That is the last
// value, because the stored message may have that header too.
func Added(header map[string][]string, key string) string {
	if v := header[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// NoConsumersLeft reports whether a consumer was refused because the stream has as many as it may have.
func NoConsumersLeft(err error) bool {
	const code = 10026
	return HasCode(err, code)
}

// codeConflictInFlight is the code with which replicas refuse a message while another write of its subject is in
// flight.
const codeConflictInFlight jetstream.ErrorCode = 10164

// NoRoom reports whether a stream has refused a message because of its limits.
func NoRoom(err error) bool {
	const code = 10077
	return HasCode(err, code)
}

// Outdated reports whether a stream has refused a message because the last sequence of its subject is not the expected
// one.
func Outdated(err error) bool {
	return HasCode(err, jetstream.JSErrCodeStreamWrongLastSequence, codeConflictInFlight)
}
