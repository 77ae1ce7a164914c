package mcp

import (
	"context"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

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
