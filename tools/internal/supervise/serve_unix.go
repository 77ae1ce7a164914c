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
	// killTimeout limits how long the supervisor tries to kill the remaining processes: one of them may be in an
	// uninterruptible system call.
	killTimeout = time.Minute
	killEvery   = 5 * time.Millisecond
)

// controlFD is the supervisor's end of the control socket: the first of ExtraFiles.
const controlFD = 3

// server is the supervisor.
type server struct {
	null  *os.File
	spawn chan struct{} // has a token when there is a child to wait for

	mu       sync.Mutex
	ending   bool
	commands map[int]chan syscall.WaitStatus // those that have not ended, by process id; each channel has room for one
}

// supervise serves commands until its parent process has ended. Then it kills the remaining processes. It returns the
// exit code.
func supervise() int {
	// These signals are meant for the parent process. They are caught and not ignored, because commands would inherit
	// ignored signals.
	signal.Notify(make(chan os.Signal, 1),
		syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	closeOnExec()
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
	s.shutDown()
	return 0
}

// closeOnExec keeps commands from inheriting the control socket, and descriptors that the worker has inherited from its
// own parent.
func closeOnExec() {
	syscall.CloseOnExec(controlFD)
	entries, _ := os.ReadDir("/dev/fd") // after an error, the entries read so far
	for _, e := range entries {
		if fd, err := strconv.Atoi(e.Name()); err == nil && fd > controlFD {
			syscall.CloseOnExec(fd)
		}
	}
}

// receive waits for the next command. ok is false if there will be no more.
func receive(control *net.UnixConn) (conn *net.UnixConn, output *os.File, ok bool) {
	for {
		var one [1]byte
		rights := make([]byte, syscall.CmsgSpace(2*4))
		n, size, _, _, err := control.ReadMsgUnix(one[:], rights)
		if err != nil || n == 0 {
			return nil, nil, false
		}
		files := filesOf(rights[:size])
		if len(files) != 2 { // out of file descriptors; closing the command's socket reports it to the client
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

// filesOf returns the files that were sent with a message.
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

// serve starts a command, kills its group at the end of the stream from the client, and reports the command's status.
func (s *server) serve(conn *net.UnixConn, output *os.File) {
	defer func() { _ = conn.Close() }()
	in, out := json.NewDecoder(conn), json.NewEncoder(conn)
	var r request
	if err := in.Decode(&r); err != nil {
		_ = output.Close()
		return
	}
	pid, status, err := s.start(r, output)
	_ = output.Close() // the command has a duplicate
	if err != nil {
		errno := syscall.EIO
		errors.As(err, &errno)
		_ = out.Encode(started{Errno: int(errno)}) // the parent may have ended
		return
	}
	_ = out.Encode(started{PID: pid})
	go func() {
		_ = in.Decode(&r) // returns at the end of the stream
		s.kill(pid)
	}()
	_ = out.Encode(ended{Status: uint32(<-status)})
}

func (s *server) start(r request, output *os.File) (pid int, status <-chan syscall.WaitStatus, err error) {
	s.mu.Lock() // keeps reap from reporting the status before the command is in the map
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

// kill kills a command that has not ended, and its group.
func (s *server) kill(pid int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commands[pid] != nil {
		killGroup(pid)
	}
}

// killGroup kills the group that a process was started in, and the process itself, which may have left the group.
func killGroup(pid int) {
	for _, target := range []int{-pid, pid} {
		_ = syscall.Kill(target, syscall.SIGKILL) // fails only if no process is left
	}
}

// reap waits for all children: commands and adopted orphans.
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

// shutDown kills the remaining processes. No command starts after it was called.
func (s *server) shutDown() {
	s.mu.Lock()
	s.ending = true
	s.mu.Unlock()
	for deadline := time.Now().Add(killTimeout); time.Now().Before(deadline) && s.killAll(); {
		time.Sleep(killEvery)
	}
}
