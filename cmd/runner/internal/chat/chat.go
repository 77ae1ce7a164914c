// Package chat is a conversation with a session in a terminal: what happens is shown as it comes, what is typed is a
// prompt, or steers the run under way.
package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/runner/internal/view"
	"github.com/loopbus/loopbus/schemas"
)

const help = `Type a prompt; while a run is under way, it steers the run.
  /followup TEXT      say this when the run would end
  /y [REASON]         approve the call that waits       /n [REASON]   deny it
  /abort              end the run (ctrl-c, too)         /model NAME   use another model
  /show CALL          show a call's whole output        /quit         leave; the session stays`

// quitWait is how long a second ctrl-c after the first one leaves the chat.
const quitWait = 2 * time.Second

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

	mu          sync.Mutex // for all below: input, ctrl-c and what happens come at once
	show        *view.Terminal
	running     bool
	idle        chan struct{} // closed while no run is under way
	expected    int           // prompts sent whose run has not begun
	waiting     []schemas.CallKey
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
	c := &chat{session: s, o: o, leave: leave, idle: closed(), results: map[schemas.CallKey]string{}}
	var err error
	if c.console, err = openConsole(io_, func() { go c.interrupt(ctx) }); err != nil {
		return fmt.Errorf("take the terminal over: %w", err)
	}
	defer c.console.Close()
	c.show = view.NewTerminal(c.console, o.Colour)
	_, interactive := c.console.(*screen)
	c.show.Fold(interactive)
	watched := make(chan error, 1)
	go func() { watched <- c.watch(ctx) }()
	if interactive {
		c.say("session " + s.ID() + "; /help says what can be typed")
	}
	read := make(chan error, 1)
	go func() { read <- c.read(ctx, !interactive) }()
	select { // a read of a terminal cannot be taken back: it is left behind when the watching ends first
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

// watch shows the session's history and what happens.
func (c *chat) watch(ctx context.Context) error {
	for item, err := range c.session.Watch(ctx, 1) {
		if err != nil {
			return err
		}
		if err := c.item(item); err != nil {
			return err
		}
	}
	return nil
}

func (c *chat) item(i client.Item) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.Update != nil {
		return c.show.Update(*i.Update)
	}
	switch d := i.Event.Data.(type) {
	case *schemas.AgentStart:
		c.begin()
		c.expected = max(0, c.expected-1)
	case *schemas.AgentEnd:
		c.running, c.waiting = false, nil
		c.rest()
	case *schemas.CommandRejected:
		c.expected = max(0, c.expected-1)
		c.rest()
	case *schemas.ToolExecutionEnd:
		c.keep(d.Call, d.Result.Content.JoinText())
	}
	if err := c.show.Event(*i.Event); err != nil {
		return err
	}
	switch d := i.Event.Data.(type) {
	case *schemas.ApprovalRequested:
		c.waiting = append(c.waiting, d.Call)
		c.show.Say(fmt.Sprintf("call %s waits for approval: %s %s; /y or /n", d.Call, d.ToolName, view.Compact(d.Args)))
	case *schemas.ApprovalResolved:
		for n, call := range c.waiting {
			if call == d.Call {
				c.waiting = append(c.waiting[:n:n], c.waiting[n+1:]...)
				break
			}
		}
	}
	return nil
}

func (c *chat) begin() {
	c.running = true
	select {
	case <-c.idle:
		c.idle = make(chan struct{})
	default:
	}
}

// rest says that no run is under way or about to begin.
func (c *chat) rest() {
	if c.running || c.expected > 0 {
		return
	}
	select {
	case <-c.idle:
	default:
		close(c.idle)
	}
}

func (c *chat) keep(call schemas.CallKey, text string) {
	c.results[call] = text
	if c.order = append(c.order, call); len(c.order) > maxResults {
		delete(c.results, c.order[0])
		c.order = c.order[1:]
	}
}

// say shows a line of the program's own.
func (c *chat) say(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.show.Say(text)
}

// read does what is typed. In turn, a prompt waits for the run before it to end.
func (c *chat) read(ctx context.Context, inTurn bool) error {
	for {
		if inTurn {
			if err := c.awaitRest(ctx); err != nil {
				return err
			}
		}
		line, err := c.console.ReadLine()
		if line = strings.TrimSpace(line); line != "" {
			if err := c.do(ctx, line); errors.Is(err, io.EOF) || ctx.Err() != nil {
				return err
			} else if err != nil {
				c.say(err.Error())
			}
		}
		if err != nil {
			if inTurn {
				return errors.Join(err, c.awaitRest(ctx))
			}
			return err
		}
	}
}

func (c *chat) awaitRest(ctx context.Context) error {
	c.mu.Lock()
	idle := c.idle
	c.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// do does what one line says. io.EOF ends the chat.
func (c *chat) do(ctx context.Context, line string) error {
	word, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch word {
	case "/quit", "/exit":
		return io.EOF
	case "/help":
		c.say(help)
		return nil
	case "/abort":
		return c.session.Abort(ctx, "asked for in the chat")
	case "/y", "/n":
		return c.answer(ctx, word == "/y", rest)
	case "/followup":
		_, err := c.session.FollowUp(ctx, client.Text(rest))
		return err
	case "/model":
		ref, err := c.o.Model(rest)
		if err != nil {
			return err
		}
		return c.session.Set(ctx, &schemas.SetModel{Model: ref})
	case "/show":
		return c.showResult(schemas.CallKey(rest))
	}
	if strings.HasPrefix(word, "/") && !strings.Contains(word[1:], "/") {
		return fmt.Errorf("%s is no command of the chat%s", word, cli.Suggest(word,
			[]string{"/help", "/abort", "/followup", "/model", "/show", "/quit"}))
	}
	return c.send(ctx, line)
}

// send steers the run under way, or begins one.
func (c *chat) send(ctx context.Context, text string) (err error) {
	c.mu.Lock()
	steer := c.running
	if !steer {
		c.begin()
		c.running = false // until its events say so
		c.expected++
	}
	c.mu.Unlock()
	if steer {
		_, err = c.session.Steer(ctx, client.Text(text))
		return err
	}
	if _, err = c.session.Prompt(ctx, client.Text(text)); err != nil {
		c.mu.Lock()
		c.expected = max(0, c.expected-1)
		c.rest()
		c.mu.Unlock()
	}
	return err
}

func (c *chat) answer(ctx context.Context, yes bool, reason string) error {
	c.mu.Lock()
	var call schemas.CallKey
	if len(c.waiting) > 0 {
		call = c.waiting[0]
	}
	c.mu.Unlock()
	switch {
	case call == "":
		return errors.New("no call waits for approval")
	case yes:
		return c.session.Approve(ctx, call, reason)
	}
	return c.session.Deny(ctx, call, reason)
}

func (c *chat) showResult(call schemas.CallKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.results[call]
	if !ok {
		return fmt.Errorf("no output of a call %q is kept", call)
	}
	c.show.Say(text)
	return nil
}

// interrupt is ctrl-c: it aborts the run under way, and leaves where there is none or when it comes twice.
func (c *chat) interrupt(ctx context.Context) {
	c.mu.Lock()
	again := time.Since(c.interrupted) < quitWait
	c.interrupted = time.Now()
	running := c.running || c.expected > 0
	c.mu.Unlock()
	if again || !running {
		c.leave()
		return
	}
	c.say("aborting the run; ctrl-c again leaves the chat")
	if err := c.session.Abort(ctx, "ctrl-c"); err != nil && ctx.Err() == nil {
		c.say(err.Error())
	}
}
