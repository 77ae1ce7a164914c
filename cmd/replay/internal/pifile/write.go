package pifile

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// source is the source of an import's events.
const source = "/loopbus/replay/import"

// errTaken reports that a session has events already.
var errTaken = errors.New("there is a log of this session already: name another with --session")

// Write stores the events of an import as a session's log, which must be empty. If it fails in the middle, the log
// contains the first of them, in a state that a runner can continue from; the error says so.
func Write(ctx context.Context, store *eventstore.Store, session string, events []schemas.EventData) error {
	if err := schemas.CheckSession(session); err != nil {
		return fmt.Errorf("%w: name one with --session", err)
	}
	log, err := store.Open(ctx, session)
	if err != nil {
		return err
	}
	defer log.Close()
	for _, err := range log.Read(ctx, 1) {
		if err != nil {
			return err
		}
		return errTaken
	}
	for i, d := range events {
		e := schemas.Event{Session: session, Seq: uint64(i + 1), Time: time.Now().UTC(), Source: source, Data: d}
		if err := log.Append(ctx, e); err != nil {
			return fmt.Errorf("write event %s: %w", e.ID(), err)
		}
	}
	if err := log.Flush(ctx); err != nil {
		return fmt.Errorf("write session %s, which may have a part of its events now: %w", session, err)
	}
	return nil
}
