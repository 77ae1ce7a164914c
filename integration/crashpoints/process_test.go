package crashpoints_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/internal/wire"
)

// process is a runner or a worker in this process that a test can kill: it is connected through its gateway only.
type process struct {
	id      string
	gateway *wire.Gateway
	tap     *tap
	conn    *bus.Conn
	cancel  context.CancelFunc
	runners func() []string // ids that a runner counts as live
	ended   chan struct{}
	err     error        // why it ended; read it only after that
	calls   atomic.Int64 // deliveries in its handler
}

// startProcess connects a process that does nothing yet. If a trial is running, the process gets its next fault.
func startProcess(t testing.TB, l *stage, id string, tr *trial) *process {
	t.Helper()
	p := &process{id: id, ended: make(chan struct{})}
	p.tap = &tap{stage: l, process: p}
	l.join(p)
	if tr != nil {
		p.tap.arm(tr, false)
	}
	var err error
	if p.gateway, err = wire.Listen(l.target, p.tap); err != nil {
		t.Fatal(err)
	}
	if p.conn, err = l.connect(p.gateway.URL(), id); err != nil {
		t.Fatal(err)
	}
	return p
}

// run runs f in the process until bury is called.
func (p *process) run(f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.ended)
		p.err = f(ctx)
	}()
}

// await waits until something happens in the process. It returns false if the process ends, or too much time passes,
// before that.
func (p *process) await(happens <-chan struct{}) bool {
	select {
	case <-happens:
		return true
	case <-p.ended:
	case <-time.After(deadline):
	}
	return false
}

// describe says whether the process still runs.
func (p *process) describe() string {
	select {
	case <-p.ended:
		return fmt.Sprintf("%s has ended: %v", p.id, p.err)
	default:
		return p.id + " runs"
	}
}

// stop ends a process as SIGTERM does, and returns when it has ended.
func (p *process) stop() {
	p.cancel()
	<-p.ended
}

// bury kills a process and returns once all its goroutines have ended.
func (p *process) bury() {
	p.gateway.Kill()
	p.conn.NATS().Close()
	p.conn.Events().Conn().Close()
	p.stop()
	p.conn.Close()
	p.gateway.Close()
	p.tap.stage.leave(p)
}

// moment passes a point without a message. It returns false if the process must not continue.
func (p *process) moment(at point) bool {
	switch p.tap.reach(at, "") {
	case wire.Kill:
		p.gateway.Kill()
	case wire.Freeze:
		p.gateway.Freeze()
	}
	return p.gateway.Await()
}
