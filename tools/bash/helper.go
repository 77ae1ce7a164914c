package bash

import (
	"github.com/loopbus/loopbus/tools/internal/jail"
	"github.com/loopbus/loopbus/tools/internal/supervise"
)

// RunHelper must be called first in main by a program that runs commands. Such a program starts itself again: as the
// process that ends all commands when the program ends, and as processes that set up sandboxes. In those, RunHelper
// does not return. Without it there are no sandboxes, and commands continue when the program is killed.
func RunHelper() {
	supervise.Main()
	jail.Main()
}
