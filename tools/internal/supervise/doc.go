// Package supervise runs commands that do not outlive this process, however it ends.
//
// A process cannot see to that for its children: killed with SIGKILL it does nothing any more, and they go on. So a
// second process is their parent, the supervisor: this program once more, without its environment. It is started with
// the first command and holds one end of a socket. When the socket closes, which the kernel sees to, it kills what is
// left and ends. On Linux that is everything that descends from a command: the supervisor is what orphans are given to,
// so that a session or process group of its own, a fork of a fork, or an ignored signal hides none. On other systems it
// is the process groups of the commands that have not ended. What runs as another user it may not kill.
//
// Each command has a socket of its own, whose other end goes to the supervisor together with its output:
//
//	to the supervisor    request                    what to start; the end of the stream kills the process group
//	from the supervisor  started, then ended        a process id or an error number; a wait status
//
// Nothing runs in this process for it between commands. A supervisor that is lost is replaced for the next command.
package supervise

// name is what the supervisor is called as a program.
const name = "loopbus-supervisor"

// request is what a command's socket begins with.
type request struct {
	Path string   `json:"path"`
	Args []string `json:"args"` // from the program's name on
	Env  []string `json:"env"`
	Dir  string   `json:"dir"`
}

// started answers a request: Errno is not 0 if there is no process.
type started struct {
	PID   int `json:"pid"`
	Errno int `json:"errno"`
}

// ended says how the process ended, as wait does.
type ended struct {
	Status uint32 `json:"status"`
}
