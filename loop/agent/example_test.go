package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/loopbus/loopbus/loop/agent"
	"github.com/loopbus/loopbus/loop/agentevent"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// An agent in a Go program, without NATS: a model, a tool, and a listener that gets every event.
func ExampleAgent() {
	model := scripted.New(
		scripted.Calls("Let me look.", schemas.ToolCall{Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)}),
		scripted.Text("Take an umbrella."),
	)
	type place struct {
		City string `json:"city"`
	}
	weather := tools.Must(tools.Typed(schemas.ToolDefinition{Name: "weather", Description: "Tells the weather."},
		func(_ context.Context, _ tools.Call, p place) (schemas.ToolResult, error) {
			return schemas.TextResult("rain in " + p.City), nil
		}))
	ctx := context.Background()
	a, err := agent.New(ctx, agent.Options{
		Model: schemas.ModelRef{ID: "scripted"}, Stream: model, Tools: []tools.Tool{weather},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	a.Subscribe(func(_ context.Context, e agentevent.Event) error {
		switch e.Type {
		case schemas.EventToolExecutionEnd:
			fmt.Println("tool:", e.Result.Content.JoinText())
		case schemas.EventMessageEnd:
			if reply, ok := e.Message.(*schemas.AssistantMessage); ok {
				fmt.Println("agent:", reply.Content.JoinText())
			}
		}
		return nil
	})
	result, err := a.Prompt(ctx, "Do I need an umbrella in Oslo?")
	fmt.Println(result.Turns, "turns:", result.Reason, err)
	// Output:
	// agent: Let me look.
	// tool: rain in Oslo
	// agent: Take an umbrella.
	// 2 turns: no_tool_calls <nil>
}

// The error has what went wrong in a run, and the result how far it came.
func ExampleAgent_Prompt() {
	ctx := context.Background()
	a, err := agent.New(ctx, agent.Options{
		Model: schemas.ModelRef{ID: "scripted"}, Stream: scripted.New(scripted.Error("out of credit")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	result, err := a.Prompt(ctx, "Hello?")
	var failed *agent.RunError
	switch {
	case errors.Is(err, agent.ErrBusy):
		fmt.Println("another run is under way")
	case errors.As(err, &failed):
		fmt.Printf("%s after %d turn: %s\n", failed.Reason, result.Turns, failed.Message)
	case err != nil:
		fmt.Println(err)
	default:
		fmt.Println(result.Text())
	}
	// Output: error after 1 turn: out of credit
}

// What is queued during a run enters it before the next model call.
func ExampleAgent_Steer() {
	ctx := context.Background()
	a, err := agent.New(ctx, agent.Options{
		Model: schemas.ModelRef{ID: "scripted"}, Stream: scripted.New(scripted.Text("One."), scripted.Text("Eins.")),
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	a.Subscribe(func(ctx context.Context, e agentevent.Event) error {
		if reply, ok := e.Message.(*schemas.AssistantMessage); ok && e.Type == schemas.EventMessageEnd {
			fmt.Println(reply.Content.JoinText())
			if reply.Content.JoinText() == "One." {
				german := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "In German, please."}}}
				return a.Steer(ctx, german)
			}
		}
		return nil
	})
	if _, err := a.Prompt(ctx, "Count to one."); err != nil {
		fmt.Println(err)
	}
	// Output:
	// One.
	// Eins.
}

// A single run without queues or state.
func ExampleRunLoop() {
	hello := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Hello"}}}
	added, err := agent.RunLoop(context.Background(), agent.LoopConfig{
		Model: schemas.ModelRef{ID: "scripted"}, Stream: scripted.New(scripted.Text("Hi there.")),
	}, hello)
	for _, m := range added {
		fmt.Println(m.MessageRole())
	}
	fmt.Println(err)
	// Output:
	// user
	// assistant
	// <nil>
}
