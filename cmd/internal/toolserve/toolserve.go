// Package toolserve serves the built-in tools on a bus: what toolworker does, and a runner that brings its own worker.
package toolserve

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/bash"
	"github.com/loopbus/loopbus/tools/ls"
	"github.com/loopbus/loopbus/tools/read"
	"github.com/loopbus/loopbus/tools/worker"
	"github.com/loopbus/loopbus/tools/workspace"
)

// Names lists the built-in tools.
func Names() []string { return []string{read.Name, ls.Name, bash.Name} }

// CheckNames returns an error that names what is not a built-in tool.
func CheckNames(names []string) error {
	for _, name := range names {
		if !slices.Contains(Names(), name) {
			return fmt.Errorf("--tools: no tool %q, there are %s", name, strings.Join(Names(), ", "))
		}
	}
	return nil
}

// Options configures [Run].
type Options struct {
	ID          string   // of the worker
	Tools       []string // by name
	Root        string   // paths outside it are refused
	Env         []string // further variables that commands may see
	Concurrency int      // calls of each tool at once
	StopTimeout time.Duration
	Environ     []string
	Logger      *slog.Logger
	Registerer  prometheus.Registerer
}

// maxDeliveries is the delivery whose failure makes a call a dead letter.
const maxDeliveries = 10

// maxImageBytes keeps an image within what the inbox takes as one command; bigger ones are scaled down.
const maxImageBytes = 400 << 10

// Run serves the tools until ctx ends and then drains.
func Run(ctx context.Context, c *bus.Conn, o Options) error {
	names := bash.SpillPattern(os.TempDir())
	ws, err := workspace.Open(workspace.Options{Root: o.Root, Home: o.Root, Files: []string{names}})
	if err != nil {
		return fmt.Errorf("--root: %w", err)
	}
	defer ws.Close()
	w, err := worker.New(worker.Options{
		ID: o.ID, NC: c.NATS(), JS: c.JetStream(), Subjects: c.Subjects(), Tools: build(ws, o),
		Raw: bus.RawMessage, StopTimeout: o.StopTimeout, Logger: o.Logger, Registerer: o.Registerer,
		Subscriber: func(tool string) (message.Subscriber, error) { return subscriber(c, o, tool) },
		Middleware: []message.HandlerMiddleware{bus.DeadLetter(c, bus.DeadLetterOptions{
			MaxDeliveries: maxDeliveries, Logger: o.Logger,
			SessionOf: func(subject string) string {
				_, session, _, err := c.Subjects().ParseTool(subject)
				if err != nil {
					return ""
				}
				return session
			},
		})},
	})
	if err != nil {
		return err
	}
	return w.Run(ctx)
}

func build(ws *workspace.Workspace, o Options) (set []tools.Tool) {
	for _, name := range o.Tools {
		switch name {
		case read.Name:
			set = append(set, read.New(read.Options{Workspace: ws, MaxImageBytes: maxImageBytes}))
		case ls.Name:
			set = append(set, ls.New(ws))
		case bash.Name:
			set = append(set, bash.New(bash.Options{Workspace: ws, Environ: o.Environ, Env: o.Env}))
		}
	}
	return set
}

func subscriber(c *bus.Conn, o Options, tool string) (message.Subscriber, error) {
	return bus.NewSubscriber(c, bus.SubscriberOptions{
		Stream: schemas.StreamTools, Concurrency: o.Concurrency, CloseTimeout: o.StopTimeout + time.Second,
		Logger: o.Logger,
		Consumer: func(string) jetstream.ConsumerConfig {
			return worker.Consumer(c.Subjects(), tool, 0)
		},
	})
}
