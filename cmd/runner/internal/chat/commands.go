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

const help = `Type a prompt. While a run is in progress, it steers that run.
  /followup TEXT      send this to the model when the run would end
  /y [CALL] [REASON]  approve the waiting call          /n [CALL] [REASON]   deny it
  /abort              abort the run (also ctrl-c)       /clear        withdraw queued inputs
  /show CALL          show the whole output of a call   /model NAME   use another model
  /quit               leave; the session remains`

// quitWait is how soon after the first a second ctrl-c leaves the chat.
const quitWait = 2 * time.Second

// read executes what is typed. With inTurn, it waits for each run to end before the next line.
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

// do executes one line. It returns io.EOF to end the chat.
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
		for line := range strings.Lines(help) {
			c.say(line)
		}
		return nil
	case "/abort":
		return c.abort(ctx, "requested in the chat")
	case "/clear":
		err := c.session.Do(ctx, &schemas.ClearQueue{})
		if err == nil {
			c.say("withdrew all queued inputs")
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
		return fmt.Errorf("unknown command %s%s; /help lists the commands", word, cli.Suggest(word,
			[]string{"/help", "/abort", "/clear", "/followup", "/model", "/show", "/quit"}))
	}
	return c.send(ctx, client.Text(line))
}

// send steers the run in progress or, if there is none, sends a prompt.
func (c *chat) send(ctx context.Context, in schemas.Input) (err error) {
	c.mu.Lock()
	steer := c.running && !c.lines // without a terminal every line is a prompt, also while history is printed
	id := rand.Text()
	if !steer {
		running := c.running
		c.begin()
		c.running = running // set when its events arrive
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
	asked, reason, err := c.waiting.Take(words)
	c.mu.Unlock()
	switch {
	case err != nil:
		return err
	case yes:
		return c.session.Approve(ctx, asked, reason)
	}
	return c.session.Deny(ctx, asked, reason)
}

func (c *chat) showResult(call schemas.CallKey) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, ok := c.results[call]
	if !ok {
		return fmt.Errorf("no output of call %q: /show prints the latest calls of this chat, by key such as c9", call)
	}
	c.show.Say(text)
	return nil
}

// interrupt handles ctrl-c: it aborts the run in progress, and leaves the chat if there is none or on a second
// ctrl-c.
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
	c.say("aborting the run; press ctrl-c again to leave the chat")
	if err := c.abort(ctx, "ctrl-c"); err != nil && ctx.Err() == nil {
		c.say(err.Error())
	}
}

// stateTimeout limits the query for queued inputs after an abort.
const stateTimeout = 2 * time.Second

// abort aborts the run and prints which inputs the next run starts with. It omits them if the user may not query the
// state.
func (c *chat) abort(ctx context.Context, reason string) error {
	if err := c.session.Abort(ctx, reason); err != nil {
		return err
	}
	soon, cancel := context.WithTimeout(ctx, stateTimeout)
	defer cancel()
	if state, err := c.session.State(soon); err == nil && state.Queued() != "" {
		c.say("queued for the next run: " + state.Queued() + "; /clear withdraws them")
	}
	return nil
}
