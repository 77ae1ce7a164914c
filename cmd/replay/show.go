package main

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// runShow prints a transcript, or with --json the events themselves.
func runShow(ctx context.Context, a *app) error {
	show := a.printEvent
	t := newTranscript(a)
	if !a.o.json {
		show = t.event
	}
	if a.o.follow {
		return a.follow(ctx, t, show)
	}
	for e, err := range a.events(ctx, a.o.sessions[0], a.o.at) {
		if err == nil {
			err = show(e)
		}
		if err != nil {
			return err
		}
	}
	if a.o.json {
		return nil
	}
	return t.close()
}

func newTranscript(a *app) *transcript {
	t := &transcript{w: a.out, style: a.style, events: a.o.events, lines: a.o.lines, cut: maxLine,
		started: make(map[string]announced), ended: make(map[string]*schemas.ToolExecutionEnd)}
	if a.o.full {
		t.lines, t.cut = 0, 0
	}
	return t
}

// runState prints the state that a log folds to.
func runState(ctx context.Context, a *app) error {
	state := new(loop.State)
	for e, err := range a.events(ctx, a.o.sessions[0], a.o.at) {
		if err == nil {
			err = state.Apply(e)
		}
		if err != nil {
			return err
		}
	}
	var text bytes.Buffer
	enc := json.NewEncoder(&text)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(state); err != nil {
		return err
	}
	line := append(cli.Indented(bytes.TrimSuffix(text.Bytes(), []byte("\n"))), '\n')
	_, err := cli.JSONOut(a.out, a.toTerm).Write(line)
	return err
}
