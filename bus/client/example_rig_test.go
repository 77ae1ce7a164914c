package client_test

import (
	"context"
	"log"
	"os"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/embedded"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// startRunner stands for `runner --listen …` in the examples: it starts a server and a runner in this process. The
// model answers each prompt with the next of the replies.
func startRunner(replies ...string) (url string, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	check(err)
	server, err := embedded.Start(embedded.Options{StoreDir: dir})
	check(err)
	ctx, cancel := context.WithCancel(context.Background())
	conn, err := bus.Connect(ctx, bus.ConnOptions{URL: server.ClientURL()})
	check(err)
	var script []scripted.Response
	for _, text := range replies {
		script = append(script, scripted.Text(text))
	}
	runner, err := wiring.New(ctx, conn, wiring.Options{
		ID: "example", Streams: streams.Options{Partitions: 16},
		Host: host.Options{
			Deps:     driver.Deps{Model: scripted.New(script...)},
			Defaults: schemas.RunConfig{Model: schemas.ModelRef{ID: "scripted"}},
		},
	})
	check(err)
	ended := make(chan error, 1)
	go func() { ended <- runner.Run(ctx) }()
	<-runner.Ready()
	return server.ClientURL(), func() {
		cancel()
		check(<-ended)
		runner.Close()
		conn.Close()
		server.Shutdown()
		check(os.RemoveAll(dir))
	}
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
