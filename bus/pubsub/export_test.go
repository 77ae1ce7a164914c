package pubsub

import (
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Puller is a puller for tests.
type Puller struct{ *puller }

// NewPuller is newPuller.
func NewPuller(js jetstream.JetStream) Puller { return Puller{newPuller(js)} }

// Pull is pull.
func (p Puller) Pull(c jetstream.Consumer, wait time.Duration) (jetstream.Msg, error) {
	return p.pull(c, wait)
}

// Close is close.
func (p Puller) Close() { p.close() }
