package providers_test

import (
	"testing"

	"github.com/loopbus/loopbus/bus/bustest/suite"
)

// Most tests wait for servers that are slow or silent.
func TestMain(m *testing.M) {
	suite.Parallel(suite.Usual)
	m.Run()
}
