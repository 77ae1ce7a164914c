package pubsub_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
)

// multiplying is a goroutine of the acceptance suite's own, which waits for ever with a message that has come when the
// test had read enough.
const multiplying = "github.com/ThreeDotsLabs/watermill/internal/subscriber.(*multiplier).Subscribe.func2"

func TestMain(m *testing.M) { bustest.Main(m, multiplying) }
