//go:build unix

package chaos_test

import "github.com/loopbus/loopbus/integration/internal/system"

// build makes the commands of the project, once for all tests, and returns the directory they are in.
var build = system.Programs("cmd/runner", "cmd/toolworker")
