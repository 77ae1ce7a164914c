// Package chat implements `runner chat`: it prints what happens in a session as it happens, and sends what is typed
// as a prompt, or as a steer while a run is in progress.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/runner/internal/view"
	"github.com/loopbus/loopbus/schemas"
)

// Options configures a chat.
type Options struct {
	Colour bool
	// Model resolves the name of a model that the user types.
	Model func(name string) (schemas.ModelRef, error)
}

// chat is one conversation.
type chat struct {
	session *client.Session
	o       Options
	console console
	leave   context.CancelFunc
	lines   bool // there is no terminal: read lines

	mu          sync.Mutex // guards all below: input, ctrl-c and events arrive concurrently
	show        *view.Terminal
	running     bool
	idle        chan struct{}   // closed while no run is in progress
	expected    map[string]bool // ids of prompts that were sent and have no outcome yet
	waiting     view.Answers
	results     map[schemas.CallKey]string
	order       []schemas.CallKey // keys of results, oldest first
	interrupted time.Time
}

// maxResults is the number of call outputs that /show can print.
const maxResults = 100

// Run chats until the input or ctx ends. Without a terminal it reads prompts as lines, sends one after another, and
// returns after the last run.
func Run(ctx context.Context, s *client.Session, io_ *cli.IO, o Options) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	c := &chat{session: s, o: o, leave: leave, idle: closed(), results: map[schemas.CallKey]string{},
		expected: map[string]bool{}}
	var err error
	if c.console, err = openConsole(io_, func() { go c.interrupt(ctx) }); err != nil {
		return fmt.Errorf("set up the terminal: %w", err)
	}
	defer c.console.Close()
	c.show = view.NewTerminal(c.console, o.Colour)
	_, interactive := c.console.(*screen)
	c.lines = !interactive
	c.show.Fold(interactive)
	watched := make(chan error, 1)
	go func() { watched <- c.watch(ctx) }()
	if interactive {
		c.say("session " + s.ID() + "; type a prompt, or /help for the commands")
	}
	read := make(chan error, 1)
	go func() { read <- c.read(ctx, !interactive) }()
	select { // a read from a terminal cannot be cancelled, so its goroutine may outlive Run
	case err = <-read:
		leave()
		<-watched
	case err = <-watched:
	}
	if errors.Is(err, io.EOF) || ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

func closed() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}

// say prints a line of the program itself.
func (c *chat) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.show.Say(text)
}
