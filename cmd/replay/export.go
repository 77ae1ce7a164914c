package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/schemas"
)

func exportFlags(set *config.Set, o *options) {
	set.Bool(&o.all, "all", false, "every session, one after the other")
}

// runExport writes logs as CloudEvents in the JSON format, one per line, the data byte for byte as stored, and checks
// the order and the hash chain on the way. What lies in the object store is written inline, without dataref.
func runExport(ctx context.Context, a *app) error {
	sessions := a.o.sessions
	if a.o.all {
		all, err := a.sessions(ctx)
		if err != nil {
			return err
		}
		for _, info := range all {
			sessions = append(sessions, info.Session)
		}
	}
	for _, session := range sessions {
		if err := a.export(ctx, session); err != nil {
			return fmt.Errorf("export session %s: %w", session, err)
		}
	}
	return nil
}

func (a *app) export(ctx context.Context, session string) error {
	var seq uint64
	var hash string // of the event before
	for s, err := range a.stored(ctx, session) {
		if err != nil {
			return fmt.Errorf("after event %d: %w", seq, err)
		}
		ce, _, err := bus.DecodeCloudEvent(s.header, s.payload)
		if err != nil {
			return fmt.Errorf("after event %d: %w", seq, err)
		}
		seq++
		if want := (schemas.Event{Session: session, Seq: seq}).ID(); ce.ID() != want {
			return fmt.Errorf("event %s stands where %s should", ce.ID(), want)
		}
		extensions := ce.Extensions()
		if prev, _ := extensions["prevhash"].(string); prev != hash {
			return fmt.Errorf("event %d does not carry the hash of event %d: the log was changed", seq, seq-1)
		}
		hash = s.hash
		ce.SetExtension("dataref", nil)
		if err := a.printCloudEvent(ce); err != nil {
			return err
		}
	}
	return nil
}

// printEvent writes an event as a CloudEvent in the JSON format, on a line of its own.
func (a *app) printEvent(e schemas.Event) error {
	ce, err := bus.ToCloudEvent(e)
	if err != nil {
		return err
	}
	return a.printCloudEvent(ce)
}

func (a *app) printCloudEvent(ce event.Event) error {
	whole, err := ce.MarshalJSON()
	if err != nil {
		return fmt.Errorf("event %s: %w", ce.ID(), err)
	}
	var line bytes.Buffer
	if err := json.Compact(&line, whole); err != nil { // it changes nothing but a payload of more than one line
		return fmt.Errorf("event %s: payload is not JSON: %w", ce.ID(), err)
	}
	line.WriteByte('\n')
	_, err = a.jsonOut().Write(line.Bytes())
	return err
}
