// Package chat is a conversation with a session in a terminal: what happens is shown as it comes, what is typed is a
// prompt, or steers the run under way.
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

// Options say how the chat looks.
type Options struct {
	Colour bool
	// Model finds a model by the name that somebody types.
	Model func(name string) (schemas.ModelRef, error)
}

// chat is one conversation.
type chat struct {
	session *client.Session
	o       Options
	console console
	leave   context.CancelFunc
	lines   bool // without a terminal

	mu          sync.Mutex // for all below: input, ctrl-c and what happens come at once
	show        *view.Terminal
	running     bool
	idle        chan struct{}   // closed while no run is under way
	expected    map[string]bool // ids of the prompts sent that have no outcome yet
	waiting     view.Answers
	results     map[schemas.CallKey]string
	order       []schemas.CallKey // of results, the oldest first
	interrupted time.Time
}

// maxResults is how many outputs of calls /show can still show.
const maxResults = 100

// Run converses until the input ends or ctx does. Where there is no terminal it reads prompts as lines, one after the
// other, and ends with the last run.
func Run(ctx context.Context, s *client.Session, io_ *cli.IO, o Options) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	c := &chat{session: s, o: o, leave: leave, idle: closed(), results: map[schemas.CallKey]string{},
		expected: map[string]bool{}}
	var err error
	if c.console, err = openConsole(io_, func() { go c.interrupt(ctx) }); err != nil {
		return fmt.Errorf("take the terminal over: %w", err)
	}
	defer c.console.Close()
	c.show = view.NewTerminal(c.console, o.Colour)
	_, interactive := c.console.(*screen)
	c.lines = !interactive
	c.show.Fold(interactive)
	watched := make(chan error, 1)
	go func() { watched <- c.watch(ctx) }()
	if interactive {
		c.say("session " + s.ID() + "; /help says what can be typed")
	}
	read := make(chan error, 1)
	go func() { read <- c.read(ctx, !interactive) }()
	select { // a read of a terminal cannot be cancelled: it is left behind when the watching ends first
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

// say shows a line of the program's own.
func (c *chat) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.show.Say(text)
}
