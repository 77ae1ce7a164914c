//go:build unix

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/schemas"
)

const (
	stops = 8 // of a worker process
	// atOnce is how many calls are out at most: more than two workers have slots, so that pull requests are answered at
	// once, or have to wait.
	atOnce  = 24
	between = 40 // answers between two stops, at most
	// inboxShare is how many results lie in the inbox at most: there is no runner that takes them, and the inbox refuses
	// more than 1,000.
	inboxShare = 256
)

// A worker process is stopped by SIGTERM many times while it and another one have calls of an unsafe tool. What
// reaches it while it stops is executed: no call is nak'd, which would make its outcome unknown.
func TestStoppedWorkersLoseNoCall(t *testing.T) {
	t.Parallel()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	s := &stream{rig: newRig(t), rand: rand.New(rand.NewPCG(seed, 0)), root: t.TempDir(), open: map[schemas.CallKey]bool{}}
	s.start("steady")
	for i := range stops {
		id := fmt.Sprintf("w%d", i)
		stop := s.start(id)
		s.flow(1 + s.rand.IntN(between))
		ended := stop()
		for running := true; running; { // calls keep coming while it stops
			select {
			case err := <-ended:
				running = false
				if err != nil {
					t.Errorf("worker %s: %v", id, err)
				}
			default:
				s.flow(1)
			}
		}
	}
	for len(s.open) > 0 {
		s.take()
	}
	s.settled()
	s.check()
}

// stream makes calls of bash, and takes their answers.
type stream struct {
	*rig
	rand        *rand.Rand
	root        string
	made, taken int                      // calls, answers
	open        map[schemas.CallKey]bool // calls that are not answered
}

// start starts a worker process and waits until it serves. stop tells it to stop; what it returns says how it ended.
func (s *stream) start(id string) (stop func() <-chan error) {
	s.t.Helper()
	cmd := exec.Command(self(s.t), asToolworker, "--nats", s.server.ClientURL(), "--id", id, "--root", s.root, "--tools",
		"bash")
	cmd.Env = append(os.Environ(), "GORACE=atexit_sleep_ms=0") // the race detector would sleep for a second at every exit
	var log bytes.Buffer
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	ended := make(chan error, 1)
	done := make(chan struct{})
	go func() {
		defer close(done)
		ended <- cmd.Wait()
	}()
	stop = func() <-chan error {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			s.t.Errorf("stop worker %s: %v", id, err)
		}
		return ended
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM) // fails if it has ended
		bustest.Within(s.t, done)
		if s.t.Failed() {
			s.t.Logf("worker %s: %s", id, log.String())
		}
	})
	bustest.Eventually(s.t, "worker "+id+" serves", func() bool { return s.announcement("bash", id) != nil })
	return stop
}

// flow keeps a random number of calls out until n are answered.
func (s *stream) flow(n int) {
	s.t.Helper()
	for range n {
		for most := 1 + s.rand.IntN(atOnce); len(s.open) < most; s.made++ {
			req := s.request("bash", fmt.Sprintf(`{"command":"echo %d >> executed"}`, s.made))
			s.open[req.Call] = true
			s.dispatch(req)
		}
		s.take()
	}
}

// take takes an answer, which is that the call was executed.
func (s *stream) take() {
	s.t.Helper()
	got, _ := s.answer()
	if s.taken++; s.taken%inboxShare == 0 {
		s.emptyInbox()
	}
	if !s.open[got.Call] {
		s.t.Errorf("call %s is answered twice", got.Call)
	}
	delete(s.open, got.Call)
	if got.IsError {
		s.t.Errorf("call %s: %s", got.Call, got.Result.Content.JoinText())
	}
}

// emptyInbox takes what is stored out of the inbox, as a runner would.
func (s *stream) emptyInbox() {
	s.t.Helper()
	inbox, err := s.conn.JetStream().Stream(s.ctx(), schemas.StreamCommands)
	if err == nil {
		err = inbox.Purge(s.ctx())
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// check counts how often each call was executed.
func (s *stream) check() {
	s.t.Helper()
	executed, err := os.ReadFile(filepath.Join(s.root, "executed"))
	if err != nil {
		s.t.Fatal(err)
	}
	times := map[string]int{}
	for _, line := range strings.Fields(string(executed)) {
		times[line]++
	}
	for i := range s.made {
		if n := times[fmt.Sprint(i)]; n != 1 {
			s.t.Errorf("call %d was executed %d times", i, n)
		}
	}
	s.t.Logf("%d calls, %d stops", s.made, stops)
}
