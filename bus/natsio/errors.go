package natsio

import (
	"context"
	"errors"
	"slices"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Passing reports whether an error is of a kind that goes away when the server is back.
func Passing(err error) bool {
	return IsAny(err, nats.ErrNoResponders, nats.ErrTimeout, nats.ErrReconnectBufExceeded, nats.ErrDisconnected,
		nats.ErrConnectionReconnecting, nats.ErrStaleConnection, jetstream.ErrNoStreamResponse, context.DeadlineExceeded)
}

// IsAny reports whether an error is one of several, as [errors.Is] does.
func IsAny(err error, targets ...error) bool {
	for _, target := range targets {
		if errors.Is(err, target) {
			return true
		}
	}
	return false
}

// HasCode reports whether an error is an answer of the server with one of these codes.
func HasCode(err error, codes ...jetstream.ErrorCode) bool {
	var api *jetstream.APIError
	return errors.As(err, &api) && slices.Contains(codes, api.ErrorCode)
}

// Added returns the value that the server has added to a message's header: the last, since what is stored may have one
// too. It is empty where there is none.
func Added(header map[string][]string, key string) string {
	if v := header[key]; len(v) > 0 {
		return v[len(v)-1]
	}
	return ""
}

// NoConsumersLeft reports whether an error says that a stream has as many consumers as it may have.
func NoConsumersLeft(err error) bool {
	const code = 10026
	var old *nats.APIError // of the API that push consumers are made by
	return HasCode(err, code) || errors.As(err, &old) && old.ErrorCode == code
}
