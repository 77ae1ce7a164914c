package eventstore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// Two writers of one session: the one that comes second is refused.
func Example() {
	ctx := context.Background()
	store := eventstore.NewMemory() // or eventstore.New(js, eventstore.Options{})
	first, _ := store.Open(ctx, "s1")
	second, _ := store.Open(ctx, "s1")
	event := schemas.Event{Session: "s1", Seq: 1, Source: "/loopbus/runner/1", Data: &schemas.TurnStart{}}

	_ = first.Append(ctx, event)
	fmt.Println("first: ", first.Flush(ctx))

	event.Source = "/loopbus/runner/2"
	_ = second.Append(ctx, event)
	fmt.Println("second:", errors.Is(second.Flush(ctx), schemas.ErrConflict))

	for e, err := range store.Read(ctx, "s1", 1) {
		fmt.Println(e.ID(), e.Type(), e.Source, err)
	}
	// Output:
	// first:  <nil>
	// second: true
	// s1/1 turn_start /loopbus/runner/1 <nil>
}
