// Command dice serves a tool that rolls dice: all that a tool in Go needs. Run it together with a runner:
//
//	NATS_URL=nats://127.0.0.1:4222 go run ./docs/examples/dice
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"os/signal"
	"syscall"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/worker"
)

type roll struct {
	Count int `json:"count,omitempty" jsonschema:"description=How many dice,minimum=1,maximum=100,default=1"`
	Sides int `json:"sides,omitempty" jsonschema:"description=Sides of each die,minimum=2,default=6"`
}

func rollDice(ctx context.Context, call tools.Call, p roll) (schemas.ToolResult, error) {
	sum := 0
	for i := range p.Count {
		sum += 1 + rand.IntN(p.Sides)
		call.Update(schemas.TextResult(fmt.Sprintf("%d dice: %d so far", i+1, sum)))
	}
	return schemas.TextResult(fmt.Sprintf("%d dice with %d sides: %d", p.Count, p.Sides, sum)), tools.Interrupted(ctx)
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	dice, err := tools.Typed(schemas.ToolDefinition{Name: "dice", Description: "Rolls dice.",
		Effect: schemas.EffectReadOnly}, rollDice)
	if err != nil {
		log.Fatal(err)
	}
	nc, err := nats.Connect(cmp.Or(os.Getenv("NATS_URL"), nats.DefaultURL), nats.Name("dice"), nats.MaxReconnects(-1))
	if err != nil {
		log.Fatal(err)
	}
	defer nc.Close()
	if err := worker.Serve(ctx, nc, dice); err != nil {
		log.Fatal(err)
	}
}
