package driver_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

// An agent in a Go program, without NATS: a model, a tool, and a listener that is told of everything.
func ExampleAgent() {
	model := scripted.New(
		scripted.Calls("Let me look.", schemas.ToolCall{Name: "weather", Arguments: json.RawMessage(`{"city":"Oslo"}`)}),
		scripted.Text("Take an umbrella."),
	)
	weather := driver.Tool{
		ToolDefinition: schemas.ToolDefinition{
			Name:       "weather",
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`),
		},
		Execute: func(_ context.Context, _ string, args json.RawMessage, _ func(schemas.ToolResult)) (schemas.ToolResult, error) {
			return schemas.TextResult("rain in " + string(args)), nil
		},
	}
	agent := driver.NewAgent(driver.AgentOptions{
		Model: schemas.ModelRef{ID: "scripted"}, Stream: model, Tools: []driver.Tool{weather},
	})
	agent.Subscribe(func(_ context.Context, e driver.AgentEvent) error {
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
	if err := agent.Prompt(context.Background(), "Do I need an umbrella in Oslo?"); err != nil {
		fmt.Println(err)
	}
	// Output:
	// agent: Let me look.
	// tool: rain in {"city":"Oslo"}
	// agent: Take an umbrella.
}
