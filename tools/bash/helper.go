package bash

import (
	"github.com/loopbus/loopbus/tools/internal/jail"
	"github.com/loopbus/loopbus/tools/internal/supervise"
)

// RunHelper is what main begins with in a program that runs commands: such a program starts itself again, as the
// process that sees to it that commands do not outlive this one, and as those that make sandboxes. In these it does not
// return. Without it no sandbox can be had, and commands go on when this process is killed.
func RunHelper() {
	supervise.Main()
	jail.Main()
}
