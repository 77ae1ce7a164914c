package providers_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/atonce"
)

// Most tests wait for servers that are slow or silent.
func TestMain(m *testing.M) {
	atonce.Tests(atonce.Usual)
	m.Run()
}
