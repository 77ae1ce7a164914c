package mcp

import (
	"context"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"syscall"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools/internal/environ"
	"github.com/loopbus/loopbus/tools/mcp/internal/wire"
)

// terminateWait is how long a process may take to exit after its input was closed, and again after SIGTERM, and how
// long a server over HTTP may take to answer the request that ends a session.
const terminateWait = 2 * time.Second

// lastOutput is how long the rest of a process's output may take to be read after its end, which another process may
// keep open.
const lastOutput = 500 * time.Millisecond

// A link is the connection to a server for one session.
type link struct {
	transport sdk.Transport
	end       func()        // releases everything; called after the session
	lastWords func() string // the end of a process's standard error, for an error text
}

// kept is a transport that remembers its connection in order to close it: the SDK leaves it open if a session fails at
// the last step of its start, and while calls are in flight.
type kept struct {
	sdk.Transport
	life context.Context // the connection is closed when it ends
	conn sdk.Connection
}

// Connect implements [sdk.Transport].
func (k *kept) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := k.Transport.Connect(ctx)
	if err == nil {
		context.AfterFunc(k.life, func() { _ = conn.Close() })
	}
	k.conn = conn
	return conn, err
}

func (k *kept) close() {
	if k.conn != nil {
		_ = k.conn.Close()
	}
}

// link returns a link for a session that ends with life at the latest. end ends life.
func (b *Bridge) link(life context.Context, end func(), sift wire.Sift) link {
	if b.o.Server.URL != "" {
		return b.httpLink(life, end, sift)
	}
	return b.processLink(sift)
}

// processLink returns a link to a process with its own process group. The processes that it starts are killed with it.
func (b *Bridge) processLink(sift wire.Sift) link {
	s := b.o.Server
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = environ.Allowed(b.o.Environ, environ.Default())
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		cmd.Env = append(cmd.Env, name+"="+s.Env[name]) // the last value of a name counts
	}
	said := &stderr{log: b.log, secret: b.secret}
	cmd.Stderr = said
	cmd.WaitDelay = lastOutput
	ownGroup(cmd)
	p := &process{cmd: cmd, ended: make(chan struct{})}
	return link{
		transport: siftedTransport{impatient{p, b.o.WriteTimeout, func() { killGroup(cmd) }}, sift},
		end:       func() {},
		lastWords: said.last,
	}
}

// process is a transport that starts a process. Unlike the SDK's transport, it limits the size of messages from the
// process, and closes its input and output when the process ends: others that it has started may keep them open.
type process struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when the process has ended and its group is killed
}

// Connect implements [sdk.Transport].
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	in, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	said, out := io.Pipe()
	p.cmd.Stdout = out
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		defer close(p.ended)
		_ = p.cmd.Wait()
		killGroup(p.cmd)
		_ = out.Close()
	}()
	limited := wire.Counted(io.NopCloser(said), wire.Values, wire.MaxMessage)
	return (&sdk.IOTransport{Reader: limited, Writer: processInput{in, said, p}}).Connect(ctx)
}

// processInput is the standard input of a process. Close also ends the process.
type processInput struct {
	io.WriteCloser
	said    *io.PipeReader // what the process says
	process *process
}

// Close closes the input and waits until the process ends. One that does not end in time is sent a signal and read no
// more, and then killed with its group.
func (p processInput) Close() error {
	_ = p.WriteCloser.Close() // fails if the process has closed its end
	for _, hurry := range []func(){
		func() {
			_ = p.process.cmd.Process.Signal(syscall.SIGTERM) // fails if the process has ended
			_ = p.said.Close()                                // or its end would wait for someone to read the rest
		},
		func() { killGroup(p.process.cmd) },
	} {
		select {
		case <-p.process.ended:
			return nil
		case <-time.After(terminateWait):
			hurry()
		}
	}
	select {
	case <-p.process.ended:
		return nil
	case <-time.After(terminateWait):
		return errors.New("the process does not end")
	}
}

// impatient is a transport to a process that may stop reading. A write to a full pipe cannot be cancelled by a context:
// without this transport its call, all later calls and the end of the session would wait forever.
type impatient struct {
	sdk.Transport
	timeout time.Duration // of a write
	giveUp  func()        // kills the process, so that a blocked write fails
}

// Connect implements [sdk.Transport].
func (t impatient) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := t.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return impatientConn{c, t.timeout, t.giveUp}, nil
}

type impatientConn struct {
	sdk.Connection
	timeout time.Duration
	giveUp  func()
}

// Write also returns when ctx ends. The message may still be written completely; the SDK then notifies the server that
// the call is cancelled, as for any other call.
func (c impatientConn) Write(ctx context.Context, m jsonrpc.Message) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	setSent(ctx)
	done := make(chan error, 1)
	go func() {
		timer := time.AfterFunc(c.timeout, c.giveUp)
		defer timer.Stop()
		done <- c.Connection.Write(context.WithoutCancel(ctx), m)
	}()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
