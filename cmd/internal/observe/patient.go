package observe

import (
	"bytes"
	"io"
	"sync"
	"time"
)

// patience is how long a line of the log may take to be written.
const patience = time.Second

// patient writes the lines of a log. If nobody reads what it writes to, a full pipe or a terminal that is stopped, it
// leaves lines out: everything that logs would wait, and sessions with it.
type patient struct {
	to   io.Writer
	note func(left int) []byte // the line that says how many are left out

	mu    sync.Mutex
	stuck chan struct{} // closed when the write that took too long has ended; nil if there is none
	left  int
}

func (p *patient) Write(line []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stuck != nil {
		select {
		case <-p.stuck:
			p.stuck = nil
		default:
			p.left++
			return len(line), nil
		}
	}
	text := bytes.Clone(line)
	if p.left > 0 {
		text = append(p.note(p.left), text...)
		p.left = 0
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		_, _ = p.to.Write(text) // the log is where errors are reported
	}()
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-written:
	case <-timer.C:
		p.stuck = written
	}
	return len(line), nil
}
