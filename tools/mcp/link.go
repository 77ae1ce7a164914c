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

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/tools/internal/environ"
)

// terminateWait is how long a process may take to end once its input is closed, and again after SIGTERM, and how long a
// server by HTTP may take to answer to the end of a session.
const terminateWait = 2 * time.Second

// A link is one way to a server, for one session.
type link struct {
	transport sdk.Transport
	end       func()        // after the session: nothing of it stays
	lastWords func() string // what a process said last on its standard error, for an error text
}

// kept is a transport that keeps its connection: the SDK leaves it open where a session fails at the last step.
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

// link makes a way for a session that ends with life at the latest, which end ends.
func (b *Bridge) link(life context.Context, end func()) link {
	if b.o.Server.URL != "" {
		return b.httpLink(life, end)
	}
	return b.processLink()
}

// processLink starts a process of its own group: what it has started ends with it.
func (b *Bridge) processLink() link {
	s := b.o.Server
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = environ.Allowed(b.o.Environ, environ.Default())
	for _, name := range slices.Sorted(maps.Keys(s.Env)) {
		cmd.Env = append(cmd.Env, name+"="+s.Env[name]) // the last one counts
	}
	said := &stderr{log: b.log, secret: b.secret}
	cmd.Stderr = said
	cmd.WaitDelay = terminateWait // for a child that holds the standard error open
	ownGroup(cmd)
	return link{
		transport: impatient{processTransport{cmd}, b.o.WriteTimeout, func() { killGroup(cmd) }},
		end:       func() { killGroup(cmd) },
		lastWords: said.last,
	}
}

// processTransport starts a process. It differs from the SDK's in that it counts what the process says.
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
	said := &counted{ReadCloser: io.NopCloser(out), framing: framedValues, most: maxMessage}
	return (&sdk.IOTransport{Reader: said, Writer: processInput{in, t.cmd}}).Connect(ctx)
}

// processInput is what is written to a process, which has ended when it is closed.
type processInput struct {
	io.WriteCloser
	cmd *exec.Cmd
}

// Close waits for the process to end by itself, and then makes it end.
func (p processInput) Close() error {
	_ = p.WriteCloser.Close() // it may have closed its side already
	ended := make(chan error, 1)
	go func() { ended <- p.cmd.Wait() }()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Kill} {
		select {
		case err := <-ended:
			return err
		case <-time.After(terminateWait):
			_ = p.cmd.Process.Signal(signal) // it may have ended meanwhile
		}
	}
	select {
	case err := <-ended:
		return err
	case <-time.After(terminateWait):
		return errors.New("the process does not end")
	}
}
