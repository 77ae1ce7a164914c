package jail

import (
	"fmt"
	"os"
	"sync"
	"syscall"
)

// lifeFD is where a part finds the pipe that says whether the worker lives.
const lifeFD = 3

// life is a pipe that the worker holds both ends of, and writes nothing to. The kernel closes them when the worker
// dies, however that happens, and who reads from it then finds its end. The kernel's signal to the children of a dead
// parent is not enough: it is set for one thread, and a Go program that goes on with another one has lost it; and one
// that is set when the parent is dead already never comes.
var life = sync.OnceValues(func() (pipe struct{ reader, writer *os.File }, err error) {
	if pipe.reader, pipe.writer, err = os.Pipe(); err != nil {
		err = fmt.Errorf("make the pipe that tells sandboxes that the worker has ended: %w", err)
	}
	return pipe, err
})

// endWithWorker ends this process when the worker does. The programs that this one starts do not get the pipe.
func endWithWorker() {
	syscall.CloseOnExec(lifeFD)
	pipe := os.NewFile(lifeFD, "life")
	go func() {
		_, _ = pipe.Read(make([]byte, 1)) // its end, or it is no pipe of a worker's
		os.Exit(failed)
	}()
}
