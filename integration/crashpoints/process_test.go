package crashpoints_test

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/integration/internal/wire"
)

// process is a runner or a worker as far as it can be killed: its only way to the world is its gateway.
type process struct {
	id      string
	gateway *wire.Gateway
	tap     *tap
	conn    *bus.Conn
	cancel  context.CancelFunc
	runners func() []string // that a runner takes for live
	ended   chan struct{}
	err     error        // why it ended, to be read after that
	calls   atomic.Int64 // deliveries that its handler has and has not come to an end with
}

// startProcess connects a process that does nothing yet. In the trial under way, if there is one, it is armed.
func startProcess(t testing.TB, l *stage, id string, tr *trial) *process {
	t.Helper()
	p := &process{id: id, ended: make(chan struct{})}
	p.tap = &tap{stage: l, process: p}
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

// run has the process do f until it is buried.
func (p *process) run(f func(ctx context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	p.cancel = cancel
	go func() {
		defer close(p.ended)
		p.err = f(ctx)
	}()
}

// stop has a process end as SIGTERM does, and returns when it has.
func (p *process) stop() {
	p.cancel()
	<-p.ended
}

// bury ends what is left of a process that is dead, and kills it if it is not. It returns once nothing of it runs.
func (p *process) bury() {
	p.gateway.Kill()
	p.conn.NATS().Close()
	p.conn.Events().Conn().Close()
	p.stop()
	p.conn.Close()
	p.gateway.Close()
}

// moment is a point that is not a message: the process gets there, and goes on if the answer is true.
func (p *process) moment(at point) bool {
	switch p.tap.reach(at, "") {
	case wire.Kill:
		p.gateway.Kill()
	case wire.Freeze:
		p.gateway.Freeze()
	}
	return p.gateway.Await()
}
