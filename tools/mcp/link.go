package mcp

import (
	"context"
	"errors"
	"io"
	"maps"
	"os"
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

// A link is the connection to a server for one session.
type link struct {
	transport sdk.Transport
	end       func()        // releases everything; called after the session
	lastWords func() string // the end of a process's standard error, for an error text
}

// kept is a transport that remembers its connection in order to close it: the SDK leaves it open if a session fails at
// the last step of its start.
type kept struct {
	sdk.Transport
	conn sdk.Connection
}

// Connect implements [sdk.Transport].
func (k *kept) Connect(ctx context.Context) (sdk.Connection, error) {
	conn, err := k.Transport.Connect(ctx)
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
	cmd.WaitDelay = terminateWait // because a child may keep standard error open
	ownGroup(cmd)
	return link{
		transport: siftedTransport{impatient{processTransport{cmd}, b.o.WriteTimeout, func() { killGroup(cmd) }}, sift},
		end:       func() { killGroup(cmd) },
		lastWords: said.last,
	}
}

// processTransport starts a process. Unlike the SDK's transport, it limits the size of messages from the process.
type processTransport struct{ cmd *exec.Cmd }

// Connect implements [sdk.Transport].
func (t processTransport) Connect(ctx context.Context) (sdk.Connection, error) {
	out, err := t.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	in, err := t.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := t.cmd.Start(); err != nil {
		return nil, err
	}
	said := wire.Counted(io.NopCloser(out), wire.Values, wire.MaxMessage)
	return (&sdk.IOTransport{Reader: said, Writer: processInput{in, t.cmd}}).Connect(ctx)
}

// processInput is the standard input of a process. Close also ends the process.
type processInput struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// Close closes the input and waits until the process ends. It sends signals to a process that does not end in time.
func (p processInput) Close() error {
	_ = p.WriteCloser.Close() // fails if the process has closed its end
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Kill} {
		select {
		case err := <-ended:
			return err
		case <-time.After(terminateWait):
			_ = p.cmd.Process.Signal(signal) // fails if the process has ended
		}
	}
	select {
	case err := <-ended:
		return err
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
