package eventstore_test

import (
	"testing"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/eventstore/eventstoretest"
)

func TestMemory(t *testing.T) {
	t.Parallel()
	eventstoretest.Run(t, func(*testing.T) eventstoretest.Store {
		return eventstore.NewMemory()
	})
}

func TestJetStream(t *testing.T) {
	t.Parallel()
	eventstoretest.Run(t, func(t *testing.T) eventstoretest.Store {
		s, _ := newJetStream(t, eventstore.Options{})
		return s
	})
}

func TestJetStreamByConsumer(t *testing.T) {
	eventstoretest.Run(t, func(t *testing.T) eventstoretest.Store {
		s, _ := newJetStream(t, eventstore.Options{ByConsumer: true})
		return s
	})
}
