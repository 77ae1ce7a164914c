package simulation_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/loopbus/loopbus/schemas"
)

const textOverloaded = "overloaded"

// checkModel accepts every model but one.
func checkModel(m schemas.ModelRef) error {
	if m.ID == "unknown" {
		return errors.New("no such model")
	}
	return nil
}

// model answers at random: with text, fast or slowly, with calls of tools, or not at all.
type model struct{ *runner }

// manner is a way in which a model answers.
type manner int

const (
	says manner = iota
	saysSlowly
	calls
	callsAtLength // the reply with the calls is truncated
	overloaded
	refuses
	breaks // the stream breaks off
	hangs
)

var manners = []weighted[manner]{{40, says}, {10, saysSlowly}, {35, calls}, {2, callsAtLength}, {7, overloaded},
	{2, refuses}, {2, breaks}, {2, hangs}}

// Stream streams an answer, which it draws at the call.
func (m *model) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		m.acts("calls a model", req.SessionID)
		m.note("%s: calls the model for %s, %d messages", m.name, req.SessionID, len(req.Messages))
		r := m.draw("model " + req.SessionID)
		how := choose(r, manners)
		if !m.faulty() {
			how = says
		}
		if err := m.stream(ctx, req.SessionID, r, how, yield); err != nil {
			m.finish(ctx, err, yield)
		}
	}
}

func (m *model) finish(ctx context.Context, err error, yield func(schemas.StreamEvent, error) bool) {
	if ctx.Err() == nil || m.isDead() {
		yield(schemas.StreamEvent{}, err)
		return
	}
	yield(schemas.StreamEvent{Type: schemas.StreamError, Message: &schemas.AssistantMessage{
		StopReason: schemas.StopAborted, ErrorMessage: "aborted",
	}}, nil)
}

func (m *model) stream(ctx context.Context, session string, r draw, how manner,
	yield func(schemas.StreamEvent, error) bool) error {
	if err := m.wait(ctx, session, r.between(10*time.Millisecond, 300*time.Millisecond)); err != nil {
		return err
	}
	if !yield(schemas.StreamEvent{Type: schemas.StreamStart}, nil) {
		return nil
	}
	pieces := r.IntN(3)
	if how == saysSlowly {
		pieces = 3 + r.IntN(10)
	}
	for range pieces {
		pause := r.between(time.Millisecond, 100*time.Millisecond)
		if how == saysSlowly {
			pause = r.between(300*time.Millisecond, 1500*time.Millisecond)
		}
		if err := m.wait(ctx, session, pause); err != nil {
			return err
		}
		if !yield(schemas.StreamEvent{Type: schemas.StreamTextDelta, Delta: "word "}, nil) {
			return nil
		}
	}
	switch how {
	case breaks:
		return errors.New("the stream broke")
	case hangs:
		return m.wait(ctx, session, time.Hour)
	}
	yield(schemas.StreamEvent{Type: schemas.StreamDone, Message: reply(r, how)}, nil)
	return nil
}

// wait waits until the next part of a stream is due. It returns an error if the process has died, and blocks while the
// process is suspended.
func (m *model) wait(ctx context.Context, session string, d time.Duration) error {
	err := sleep(ctx, d)
	if dead := m.pass("model " + session); dead != nil {
		return dead
	}
	m.goesOn(session)
	return err
}

func reply(r draw, how manner) *schemas.AssistantMessage {
	m := &schemas.AssistantMessage{
		Content: schemas.Contents{schemas.Text{Text: "word"}}, StopReason: schemas.StopStop,
		Usage: schemas.Usage{TotalTokens: 10},
	}
	switch how {
	case overloaded:
		m.StopReason, m.ErrorMessage = schemas.StopError, textOverloaded
	case refuses:
		m.StopReason, m.ErrorMessage = schemas.StopError, "invalid key"
	case calls, callsAtLength:
		m.StopReason = schemas.StopToolUse
		if how == callsAtLength {
			m.StopReason = schemas.StopLength
		}
		for i := range 1 + r.IntN(3) {
			call := schemas.ToolCall{
				ID: fmt.Sprintf("t%d", i), Name: choose(r, toolNames), Arguments: json.RawMessage(`{}`),
			}
			if call.Name == schemas.ToolAgent {
				call.Arguments = task(r)
			}
			m.Content = append(m.Content, call)
		}
	}
	return m
}
