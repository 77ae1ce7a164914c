package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/runner/internal/view"
	"github.com/loopbus/loopbus/schemas"
)

// approver reports calls that wait for approval and, on a terminal, asks for answers.
type approver struct {
	session  *client.Session
	subjects schemas.Subjects
	say      func(string)
	stdin    io.Reader
	asks     bool // a person can answer on a terminal
	alone    bool // no other client can reach the session
	stop     context.CancelCauseFunc

	mu      sync.Mutex // guards waiting, which the reading goroutine uses too
	waiting view.Answers
	reading sync.Once
}

// errUnanswered ends the program if a call waits for an approval that nobody can give.
var errUnanswered = errors.New("a call waits for approval and nobody here can answer: run this in a terminal, deny " +
	"calls after a time with --approval-timeout, or let another client answer with --listen ADDR")

func newApprover(s *client.Session, subjects schemas.Subjects, io *cli.IO, say func(string)) *approver {
	return &approver{session: s, subjects: subjects, say: say, stdin: io.Stdin,
		asks: cli.IsTerminal(io.Stdin) && cli.IsTerminal(io.Stderr)}
}

// event processes requests for approval and answers to them.
func (a *approver) event(ctx context.Context, e schemas.Event) {
	switch d := e.Data.(type) {
	case *schemas.ApprovalRequested:
		a.requested(ctx, *d)
	case *schemas.ApprovalResolved:
		a.resolved(d)
	}
}

func (a *approver) requested(ctx context.Context, d schemas.ApprovalRequested) {
	text := fmt.Sprintf("call %s waits for approval: %s %s", d.Call, d.ToolName, view.Whole(d.Args))
	if d.Reason != "" {
		text += " (" + d.Reason + ")"
	}
	a.say(cli.OneLine(text))
	switch {
	case a.asks:
		a.mu.Lock()
		how := a.waiting.Add(d, "y", "n")
		a.mu.Unlock()
		a.say("approve it? " + how + ":")
		a.reading.Do(func() { go a.read(ctx) })
	case a.alone && d.TimeoutMs == 0: // with a timeout the session denies the call itself
		a.stop(cli.StatusError{Status: cli.StatusUnanswered, Err: errUnanswered})
	default:
		a.say("to answer, publish to the session: " + a.how(d))
	}
}

// how returns commands that approve or deny exactly the call that was shown.
func (a *approver) how(d schemas.ApprovalRequested) string {
	what := fmt.Sprintf(`{"call":"%s"`, d.Call)
	if d.Digest != "" {
		what += fmt.Sprintf(`,"digest":"%s"`, d.Digest)
	}
	return fmt.Sprintf(`nats pub %s '%s}', or %s '%s,"reason":"…"}'`,
		a.subjects.Command(a.session.ID(), schemas.CommandApprove), what,
		a.subjects.Command(a.session.ID(), schemas.CommandDeny), what)
}

func (a *approver) resolved(d *schemas.ApprovalResolved) {
	answer := "denied"
	if d.Approved {
		answer = "approved"
	}
	if d.By != "" {
		answer += " by " + d.By
	}
	a.say(fmt.Sprintf("call %s: %s", d.Call, answer))
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waiting.Remove(d.Call)
}

// read reads answers, one per line, until stdin ends. A read from a terminal cannot be cancelled, so this goroutine
// may outlive the run.
func (a *approver) read(ctx context.Context) {
	lines := bufio.NewScanner(a.stdin)
	for lines.Scan() && ctx.Err() == nil {
		if err := a.answer(ctx, lines.Text()); err != nil && ctx.Err() == nil {
			a.say(err.Error())
		}
	}
	if ctx.Err() == nil && a.alone {
		a.stop(cli.StatusError{Status: cli.StatusUnanswered, Err: errUnanswered})
	}
}

func (a *approver) answer(ctx context.Context, line string) error {
	word, words, _ := strings.Cut(strings.TrimSpace(line), " ")
	word = strings.ToLower(word)
	a.mu.Lock()
	if !a.waiting.Any() {
		a.waiting.Typed()
		a.mu.Unlock()
		return nil
	}
	yes := word == "y" || word == "yes"
	if !yes && word != "n" && word != "no" {
		a.mu.Unlock()
		return errors.New("approve it? y, or n and a reason")
	}
	asked, reason, err := a.waiting.Take(words)
	a.mu.Unlock()
	switch {
	case err != nil:
		return err
	case yes:
		return a.session.Approve(ctx, asked, reason)
	}
	return a.session.Deny(ctx, asked, reason)
}
