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

// approver says what waits for approval, and asks where there is a terminal.
type approver struct {
	session  *client.Session
	subjects schemas.Subjects
	say      func(string)
	stdin    io.Reader
	asks     bool // there is somebody at a terminal
	alone    bool // nobody else can reach the session
	stop     context.CancelCauseFunc

	mu      sync.Mutex // for what the goroutine that reads uses, too
	waiting view.Answers
	reading sync.Once
}

// errUnanswered ends the program while a call waits for an approval that nobody can give.
var errUnanswered = errors.New("a call waits for approval and nobody here can answer: run it in a terminal, give " +
	"--approval-timeout, or give --listen and have somebody else answer")

func newApprover(s *client.Session, subjects schemas.Subjects, io *cli.IO, say func(string)) *approver {
	return &approver{session: s, subjects: subjects, say: say, stdin: io.Stdin,
		asks: cli.IsTerminal(io.Stdin) && cli.IsTerminal(io.Stderr)}
}

// event looks for calls that wait for approval, and for those that have been answered.
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
		how := a.waiting.Add(d.Call, "y", "n")
		a.mu.Unlock()
		a.say("approve it? " + how + ":")
		a.reading.Do(func() { go a.read(ctx) })
	case a.alone && d.TimeoutMs == 0: // time itself would answer
		a.stop(cli.StatusError{Status: cli.StatusUnanswered, Err: errUnanswered})
	default:
		a.say("who may publish to the session answers: " + a.how(d.Call))
	}
}

// how is a command that approves a call.
func (a *approver) how(call schemas.CallKey) string {
	return fmt.Sprintf(`nats pub %s '{"call":"%s"}', or %s '{"call":"%s","reason":"…"}'`,
		a.subjects.Command(a.session.ID(), schemas.CommandApprove), call,
		a.subjects.Command(a.session.ID(), schemas.CommandDeny), call)
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

// read takes answers, a line each. It ends with its input, which may be after
// all else: nothing can take a read of a terminal back.
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
	call, reason, err := a.waiting.Take(words)
	a.mu.Unlock()
	switch {
	case err != nil:
		return err
	case yes:
		return a.session.Approve(ctx, call, reason)
	}
	return a.session.Deny(ctx, call, reason)
}
