//go:build unix

package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"
	"time"
)

const (
	// endTime is how long the supervisor tries to kill what is left: a process may be in a call that nothing
	// interrupts.
	endTime = time.Minute
	endWait = 5 * time.Millisecond
)

// controlFD is where the supervisor finds its end of the socket.
const controlFD = 3

// server is the supervisor.
type server struct {
	null  *os.File
	spawn chan struct{} // holds one: there is a child to wait for

	mu       sync.Mutex
	ending   bool
	commands map[int]chan syscall.WaitStatus // by process id, those that have not ended; each channel holds one
}

// supervise serves commands until the process that it was started by has ended, and ends what is left.
func supervise() int {
	// Signals are for the process it was started by. They are caught and not ignored: commands would inherit that.
	signal.Notify(make(chan os.Signal, 1),
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	leaveDescriptors()
	control, err := connOf(os.NewFile(controlFD, "control"))
	if err == nil {
		err = adoptOrphans()
	}
	s := &server{spawn: make(chan struct{}, 1), commands: map[int]chan syscall.WaitStatus{}}
	if err == nil {
		s.null, err = os.Open(os.DevNull)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervisor of commands:", err)
		return 1
	}
	go s.reap()
	for {
		conn, output, ok := receive(control)
		if !ok {
			break
		}
		go s.serve(conn, output)
	}
	s.end()
	return 0
}

// leaveDescriptors sees to it that commands do not get what this process has inherited: its end of the socket, and what
// the parent of the worker may have left open for that.
func leaveDescriptors() {
	syscall.CloseOnExec(controlFD)
	entries, _ := os.ReadDir("/dev/fd") // what there is
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > controlFD {
			syscall.CloseOnExec(fd)
		}
	}
}

// receive waits for the next command. It reports false when there will be none.
func receive(control *net.UnixConn) (conn *net.UnixConn, output *os.File, ok bool) {
	for {
		var one [1]byte
		rights := make([]byte, syscall.CmsgSpace(2*4))
		n, size, _, _, err := control.ReadMsgUnix(one[:], rights)
		if err != nil || n == 0 {
			return nil, nil, false
		}
		files := filesOf(rights[:size])
		if len(files) != 2 { // out of file descriptors: the command's socket is closed, which says so
			for _, f := range files {
				_ = f.Close()
			}
			continue
		}
		if conn, err = connOf(files[0]); err == nil {
			return conn, files[1], true
		}
		_ = files[1].Close()
	}
}

// filesOf are the files that came with a message.
func filesOf(rights []byte) (files []*os.File) {
	messages, err := syscall.ParseSocketControlMessage(rights)
	if err != nil {
		return nil
	}
	for _, m := range messages {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue
		}
		for _, fd := range fds {
			syscall.CloseOnExec(fd)
			files = append(files, os.NewFile(uintptr(fd), "command"))
		}
	}
	return files
}

// serve starts a command, kills its group when the socket's other end says no more, and tells how it ended.
func (s *server) serve(conn *net.UnixConn, output *os.File) {
	defer func() { _ = conn.Close() }()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var r request
	if err := in.Decode(&r); err != nil {
		_ = output.Close()
		return
	}
	pid, status, err := s.start(r, output)
	_ = output.Close() // the command has its own
	if err != nil {
		errno := syscall.EIO
		errors.As(err, &errno)
		_ = out.Encode(started{Errno: int(errno)}) // the parent may have ended
		return
	}
	_ = out.Encode(started{PID: pid})
	go func() {
		_ = in.Decode(&r) // ends with the stream
		s.kill(pid)
	}()
	_ = out.Encode(ended{Status: uint32(<-status)})
}

func (s *server) start(r request, output *os.File) (pid int, status <-chan syscall.WaitStatus, err error) {
	s.mu.Lock() // it is not waited for before it is known
	defer s.mu.Unlock()
	if s.ending {
		return 0, nil, syscall.ECANCELED
	}
	pid, err = syscall.ForkExec(r.Path, r.Args, &syscall.ProcAttr{
		Dir: r.Dir, Env: r.Env, Files: []uintptr{s.null.Fd(), output.Fd(), output.Fd()},
		Sys: &syscall.SysProcAttr{Setpgid: true},
	})
	if err != nil {
		return 0, nil, err
	}
	c := make(chan syscall.WaitStatus, 1)
	s.commands[pid] = c
	select {
	case s.spawn <- struct{}{}:
	default:
	}
	return pid, c, nil
}

// kill kills the group of a command that has not ended.
func (s *server) kill(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commands[pid] != nil {
		_ = syscall.Kill(-pid, syscall.SIGKILL) // fails only if nobody is left
	}
}

// reap waits for all that ends: commands, and what they have left behind.
func (s *server) reap() {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil: // no children
			<-s.spawn
		case status.Exited() || status.Signaled():
			s.ended(pid, status)
		}
	}
}

func (s *server) ended(pid int, status syscall.WaitStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.commands[pid]; c != nil {
		c <- status
		delete(s.commands, pid)
	}
}

// end kills what is left. No command is started any more.
func (s *server) end() {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	for deadline := time.Now().Add(endTime); time.Now().Before(deadline) && s.killAll(); {
		time.Sleep(endWait)
	}
}
