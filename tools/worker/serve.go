package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/tools"
)

// Serve makes this process a worker of tools on nc, under a random name and with the defaults of [Options]: it creates
// the tools' consumers where they are missing, announces the tools, executes their calls, and drains when ctx ends. It
// returns nil after that, or why it could not start or go on. The streams have to be there: a runner makes them.
//
// nc stays the caller's. A connection of [nats.MaxReconnects] -1 waits for a server that is away however long that
// takes; nats.go by itself gives up after two minutes.
//
// With other settings, or another prefix of subjects, use [New] and [Worker.Run].
func Serve(ctx context.Context, nc *nats.Conn, list ...tools.Tool) error {
	if nc == nil {
		return errors.New("worker: serve: no connection given")
	}
	w, err := New(Options{ID: "w-" + strings.ToLower(rand.Text()[:10]), NC: nc, Tools: list})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}
