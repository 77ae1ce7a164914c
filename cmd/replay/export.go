package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/cloudevents/sdk-go/v2/event"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/cmd/replay/internal/page"
	"github.com/loopbus/loopbus/cmd/replay/internal/pifile"
	"github.com/loopbus/loopbus/schemas"
)

// runExport writes logs as CloudEvents in the JSON format, one per line, with data byte for byte as stored, and
// checks the order and the hash chain. Payloads in the object store are written inline, without dataref.
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
	var hash string // of the previous message
	for m, err := range a.stored(ctx, session) {
		if err != nil {
			return fmt.Errorf("after event %d: %w", seq, err)
		}
		if e := m.events[0]; e.Seq != seq+1 {
			return fmt.Errorf("found event %s in place of %s", e.ID(), schemas.Event{Session: session, Seq: seq + 1}.ID())
		} else if e.PrevHash != hash {
			return fmt.Errorf("event %d does not contain the hash of the message before it: the log was changed", e.Seq)
		}
		hash = m.hash
		for _, e := range m.events {
			ce, err := m.cloudEvent(e)
			if err != nil {
				return fmt.Errorf("after event %d: %w", seq, err)
			}
			if err := a.printCloudEvent(ce); err != nil {
				return err
			}
			seq = e.Seq
		}
	}
	return nil
}

// printEvent prints an event as a CloudEvent in the JSON format, on one line.
func (a *app) printEvent(e schemas.Event) error {
	ce, err := codec.ToCloudEvent(e)
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
	if err := json.Compact(&line, whole); err != nil { // changes only payloads of more than one line
		return fmt.Errorf("event %s: payload is not JSON: %w", ce.ID(), err)
	}
	line.WriteByte('\n')
	_, err = cli.JSONOut(a.out, a.toTerm).Write(line.Bytes())
	return err
}

// formatEvents is the format of logs as CloudEvents.
const formatEvents = "events"

// exportAs writes a session as a file of another format.
func (a *app) exportAs(ctx context.Context, format, session, cwd string) error {
	file, err := pifile.Export(session, cwd, a.store.Read(ctx, session, 1))
	switch {
	case err != nil:
		return fmt.Errorf("export session %s: %w", session, err)
	case file.Header() == nil:
		return noLog(session)
	case format == "html" && a.toTerm:
		var text strings.Builder
		err := page.HTML(&text, file)
		fmt.Fprint(a.out, cli.Visible(text.String()))
		return err
	case format == "html":
		return page.HTML(a.out, file)
	case format == "md":
		return page.Markdown(a.out, file)
	}
	return file.WriteLines(cli.JSONOut(a.out, a.toTerm))
}

// importFiles creates a session from each file. It reads all files before it writes anything.
func (a *app) importFiles(ctx context.Context, session string, files []string) error {
	var all []*pifile.Imported
	var errs []error
	for _, path := range files {
		im, err := pifile.ReadFile(path)
		if err != nil {
			errs = append(errs, err)
		}
		all = append(all, im)
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for i, im := range all {
		id := cmp.Or(session, im.Session)
		if err := pifile.Write(ctx, a.store, id, im.Events); err != nil {
			return fmt.Errorf("import %s as session %s: %w", files[i], id, err)
		}
		fmt.Fprintf(a.out, "%s: session %s, %d entries\n", cli.Visible(files[i]), id, im.Entries)
	}
	return nil
}
