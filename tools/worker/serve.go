package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/tools"
)

// Serve runs a worker for the tools in list on nc, with a random id and the defaults of [Options]: it creates missing
// consumers, announces the tools, executes their calls, and drains when ctx ends. It returns nil after a clean drain;
// an error tells why the worker could not start, continue or drain. The streams must exist: a runner creates them.
//
// The caller keeps ownership of nc and closes it after Serve has returned. Connect with [nats.MaxReconnects] -1 to wait
// for a lost server as long as it takes; by default nats.go gives up after two minutes.
//
// For other settings, or another subject prefix, use [New] and [Worker.Run].
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
