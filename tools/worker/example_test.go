package worker_test

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

// A program that serves a tool until it receives a signal.
func ExampleServe() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	tool, err := tools.Typed(schemas.ToolDefinition{Name: "add", Description: "Adds two numbers."}, add)
	if err != nil {
		log.Print(err)
		return
	}
	nc, err := nats.Connect(nats.DefaultURL, nats.MaxReconnects(-1))
	if err != nil {
		log.Print(err)
		return
	}
	defer nc.Close()
	if err := worker.Serve(ctx, nc, tool); err != nil {
		log.Print(err)
	}
}
