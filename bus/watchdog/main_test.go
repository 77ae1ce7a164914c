package watchdog_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest"
)

func TestMain(m *testing.M) { bustest.Main(m) }
