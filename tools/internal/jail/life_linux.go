package jail

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// life is a pipe that the worker never writes to and keeps both ends of. The kernel closes them when the worker ends in
// any way, and a process that reads from the pipe then gets end of file. PR_SET_PDEATHSIG is not enough: it is set for
// one thread, so that a Go program which continues on another thread loses it; and if it is set after the parent has
// ended, the signal never comes.
var life = sync.OnceValues(func() (pipe struct{ reader, writer *os.File }, err error) {
	if pipe.reader, pipe.writer, err = os.Pipe(); err != nil {
		err = fmt.Errorf("make the pipe that tells sandboxes that the worker has ended: %w", err)
	}
	return pipe, err
})

// endWithWorker makes this process exit when the worker ends. Programs that this process starts do not inherit the
// pipe.
func endWithWorker() {
	syscall.CloseOnExec(lifeFD)
	pipe := os.NewFile(lifeFD, "life")
	go func() {
		_, _ = pipe.Read(make([]byte, 1)) // returns at end of file, or if the descriptor is not such a pipe
		syscall.Exit(failed)              // as in Main
	}()
}
