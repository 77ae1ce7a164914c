// Package supervise runs commands that do not outlive this process, however it ends.
//
// A process that is killed with SIGKILL cannot stop its children, and they keep running. The parent of commands is
// therefore a second process, the supervisor: this program, executed again, without its environment. It is started with
// the first command and holds one end of a socket. When this process ends, the kernel closes the other end; the
// supervisor then kills the remaining processes and exits. On Linux these are all descendants of commands: orphans
// become children of the supervisor, so that a process cannot escape with its own session or process group, with a
// double fork, or by ignoring signals. On other systems they are the process groups of the commands that have not
// ended. The supervisor cannot kill processes that run as another user. A command of the same user can kill the
// supervisor and this process, so one that works against its end is not ended: that takes a process namespace.
//
// Each command has its own socket, whose other end is sent to the supervisor together with the output file:
//
//	to the supervisor    request                    what to start; end of file kills the process group
//	from the supervisor  started, then ended        a process id or an error number; a wait status
//
// No goroutine runs in this process between commands. If the supervisor was killed, the next command starts another.
package supervise

// name is the supervisor's argv[0].
const name = "loopbus-supervisor"

// request is the first message on a command's socket.
type request struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // the program's name first
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// started is the answer to a request. Errno is not 0 if the process could not be started.
type started struct {
	PID   int `json:"pid"`
	Errno int `json:"errno"`
}

// ended reports the wait status of the process.
type ended struct {
	Status uint32 `json:"status"`
}
