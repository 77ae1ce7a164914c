package eventstore_test

import (
	"testing"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/eventstore/eventstoretest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	eventstoretest.Run(t, func(*testing.T) eventstoretest.Store {
		return eventstoretest.Of(eventstore.NewMemory())
	})
}

func TestJetStream(t *testing.T) {
	t.Parallel()
	eventstoretest.Run(t, func(t *testing.T) eventstoretest.Store {
		s, _ := newJetStream(t, eventstore.Options{FollowCheck: time.Hour}) // following must not live on the check
		return eventstoretest.Of(s)
	})
}

func TestJetStreamByConsumer(t *testing.T) {
	eventstoretest.Run(t, func(t *testing.T) eventstoretest.Store {
		s, _ := newJetStream(t, eventstore.Options{FollowCheck: time.Hour, ByConsumer: true})
		return eventstoretest.Of(s)
	})
}
