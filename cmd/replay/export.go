package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/cmd/internal/config"
	"github.com/loopbus/loopbus/schemas"
)

func exportFlags(set *config.Set, o *options) {
	set.Bool(&o.all, "all", false, "every session, one after the other")
}

// runExport writes logs as CloudEvents in the JSON format, one per line, and checks on the way that they are what their
// writers wrote. What lies in the object store is written inline, without dataref.
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
			return err
		}
	}
	return nil
}

func (a *app) export(ctx context.Context, session string) error {
	var c chain
	for e, err := range a.events(ctx, session, moment{}) {
		if err == nil {
			err = c.next(e)
		}
		if err == nil {
			err = a.printEvent(e)
		}
		if err != nil {
			return fmt.Errorf("export session %s: %w", session, err)
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
	line, err := ce.MarshalJSON()
	if err != nil {
		return fmt.Errorf("event %d: %w", e.Seq, err)
	}
	_, err = a.jsonOut().Write(append(line, '\n'))
	return err
}

// chain checks that each event names the hash of the one before, as it would be written today: then what is exported is
// what was stored, to the byte.
type chain struct {
	inline, inStore string // the hash of the event before, by where its payload may be kept
}

func (c *chain) next(e schemas.Event) error {
	if e.PrevHash != c.inline && e.PrevHash != c.inStore {
		return fmt.Errorf("event %d does not carry the hash of event %d: the log was changed, "+
			"or written by a version with other payloads (replay verify tells)", e.Seq, e.Seq-1)
	}
	header, payload, err := schemas.EncodeEvent(e)
	if err != nil {
		return err
	}
	c.inline = schemas.Hash(header, payload)
	sum := sha256.Sum256(payload)
	header[schemas.HeaderDataRef] = []string{"nats://" + schemas.BucketBlobs + "/" + hex.EncodeToString(sum[:])}
	c.inStore = schemas.Hash(header, nil)
	return nil
}
