package chat

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/schemas"
)

const help = `Type a prompt; while a run is under way, it steers the run.
  /followup TEXT      say this when the run would end
  /y [CALL] [REASON]  approve the call that waits       /n [CALL] [REASON]   deny it
  /abort              end the run (ctrl-c, too)         /clear        withdraw what is queued
  /show CALL          show a call's whole output        /model NAME   use another model
  /quit               leave; the session stays`

// quitWait is how long a second ctrl-c after the first one leaves the chat.
const quitWait = 2 * time.Second

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
	if word != "/y" && word != "/n" {
		c.mu.Lock()
		c.waiting.Typed()
		c.mu.Unlock()
	}
	switch word {
	case "/quit", "/exit":
		return io.EOF
	case "/help":
		c.say(help)
		return nil
	case "/abort":
		return c.abort(ctx, "asked for in the chat")
	case "/clear":
		err := c.session.Do(ctx, &schemas.ClearQueue{})
		if err == nil {
			c.say("nothing is queued any more")
		}
		return err
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
	if expanded, ok := strings.CutPrefix(line, "//"); ok {
		return c.send(ctx, schemas.Input{Text: "/" + expanded, Expand: true})
	}
	if strings.HasPrefix(word, "/") && !strings.Contains(word[1:], "/") {
		return fmt.Errorf("%s is no command of the chat%s", word, cli.Suggest(word,
			[]string{"/help", "/abort", "/clear", "/followup", "/model", "/show", "/quit"}))
	}
	return c.send(ctx, client.Text(line))
}

// send steers the run under way, or begins one.
func (c *chat) send(ctx context.Context, in schemas.Input) (err error) {
	c.mu.Lock()
	steer := c.running && !c.lines // a line is a prompt, also while the session's history is being shown
	id := rand.Text()
	if !steer {
		running := c.running
		c.begin()
		c.running = running // until its events say so
		c.expected[id] = true
	}
	c.mu.Unlock()
	if steer {
		_, err = c.session.Steer(ctx, in)
		return err
	}
	if _, err = c.session.Prompt(ctx, in, client.WithID(id)); err != nil {
		c.mu.Lock()
		c.settle(id)
		c.mu.Unlock()
	}
	return err
}

func (c *chat) answer(ctx context.Context, yes bool, words string) error {
	c.mu.Lock()
	call, reason, err := c.waiting.Take(words)
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
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
	running := c.running || len(c.expected) > 0
	c.mu.Unlock()
	if again || !running {
		c.leave()
		return
	}
	c.say("aborting the run; ctrl-c again leaves the chat")
	if err := c.abort(ctx, "ctrl-c"); err != nil && ctx.Err() == nil {
		c.say(err.Error())
	}
}

// stateTimeout is how long the chat waits to learn what is queued.
const stateTimeout = 2 * time.Second

// abort ends the run, and says what the next run would begin with. A user that may not query the state does not see
// that.
func (c *chat) abort(ctx context.Context, reason string) error {
	if err := c.session.Abort(ctx, reason); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	if state, err := c.session.State(soon); err == nil && state.Queued() != "" {
		c.say("waiting for the next run: " + state.Queued() + "; /clear withdraws it")
	}
	return nil
}
