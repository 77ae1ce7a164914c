package client_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// Send a prompt and wait for the reply.
func Example() {
	url, stop := startRunner("Two files: a.txt and b.txt.")
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	c, err := client.Connect(url, client.Options{Name: "example"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	run, err := c.Session("s1").Prompt(ctx, client.Text("list the files"))
	if err != nil {
		log.Fatal(err)
	}
	res, err := run.Wait(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(res.Text())
	fmt.Println(res.Reason, res.Turns)
	// Output:
	// Two files: a.txt and b.txt.
	// no_tool_calls 1
}

// Print the reply while it is being streamed, then the events of the run.
func ExampleRun_Items() {
	url, stop := startRunner("Hello!")
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Connect(url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	run, err := c.Session("s1").Prompt(ctx, client.Text("say hello"))
	if err != nil {
		log.Fatal(err)
	}
	var streamed strings.Builder
	for item, err := range run.Items(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if text := item.Delta(); text != "" {
			streamed.WriteString(text) // the next piece of the reply
			continue
		}
		if item.Event == nil {
			continue // progress of a tool, or thinking of the model
		}
		switch d := item.Event.Data.(type) {
		case *schemas.ToolExecutionStart:
			fmt.Println("calls", d.ToolName)
		case *schemas.MessageEnd:
			if m, ok := d.Message.Message.(*schemas.AssistantMessage); ok {
				fmt.Println("says", m.Content.JoinText())
			}
		case *schemas.AgentEnd:
			fmt.Println("ends with", d.TerminationReason)
		}
	}
	// Output:
	// says Hello!
	// ends with no_tool_calls
}

// A client that may crash chooses the ids of its commands. Sending a command again with the same id changes nothing
// and returns the same run.
func ExampleWithID() {
	url, stop := startRunner("Ordered.", "Never said.")
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	for range 2 {
		c, err := client.Connect(url, client.Options{})
		if err != nil {
			log.Fatal(err)
		}
		run, err := c.Session("s1").Prompt(ctx, client.Text("order a pizza"), client.WithID("order-4711"))
		if err != nil {
			log.Fatal(err)
		}
		res, err := run.Wait(ctx)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(res.RunID, res.Text())
		c.Close()
	}
	// Output:
	// r2 Ordered.
	// r2 Ordered.
}

// A refusal has a stable code that programs can branch on.
func ExampleRejectedError() {
	url, stop := startRunner()
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Connect(url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()

	err = c.Session("s1").Abort(ctx, "never mind")
	var rejected *client.RejectedError
	if errors.As(err, &rejected) && rejected.Code == schemas.RejectNoRun {
		fmt.Println("there was nothing to abort:", rejected.Reason)
	}
	// Output: there was nothing to abort: no run is under way
}

// Follow everything that happens in a session, beginning with its first event. To resume later, pass the sequence
// after the last event seen.
func ExampleSession_Watch() {
	url, stop := startRunner("Hello!")
	defer stop()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := client.Connect(url, client.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Session("s1").Prompt(ctx, client.Text("say hello")); err != nil {
		log.Fatal(err)
	}

	for item, err := range c.Session("s1").Watch(ctx, 1) {
		if err != nil {
			log.Fatal(err)
		}
		if item.Event == nil {
			continue
		}
		fmt.Println(item.Event.Seq, item.Event.Type())
		if item.Event.Type() == schemas.EventAgentStart {
			break
		}
	}
	// Output:
	// 1 command_accepted
	// 2 agent_start
}

// Approve calls of a harmless tool, whichever session they belong to.
func ExampleClient_Approvals() {
	ctx := context.Background()
	c, err := client.Connect("nats://127.0.0.1:4222", client.Options{Name: "approver"})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	for a, err := range c.Approvals(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		if a.Waiting && a.Request.ToolName == "ls" {
			if err := c.Session(a.Session).Approve(ctx, a.Request, "reads only"); err != nil {
				log.Print(err) // for example because another approver was faster
			}
		}
	}
}
