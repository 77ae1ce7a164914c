package sessions

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/retention"
	"github.com/loopbus/loopbus/bus/retention/archive"
	"github.com/loopbus/loopbus/cmd/internal/cli"
	"github.com/loopbus/loopbus/eventstore"
)

// Export is `runner sessions export`: it prints the events with all payloads in place.
type Export struct {
	Where    `embed:""`
	Sessions []string `arg:"" optional:"" name:"session"`
}

// Check validates the session ids.
func (e *Export) Check(*cli.Call) []error { return checkAll(e.Sessions) }

// Run prints the events of the sessions in order.
func (e *Export) Run(ctx context.Context, io *cli.IO) error {
	return e.reading(ctx, io, eventstore.Options{ByConsumer: true}, func(ctx context.Context, p *place) error {
		out := bufio.NewWriter(io.Stdout)
		lines := cli.JSONOut(out, cli.IsTerminal(io.Stdout))
		for _, session := range e.Sessions {
			n := 0
			for ev, err := range p.store.Read(ctx, session, 1) {
				if err != nil {
					return errors.Join(err, out.Flush())
				}
				ce, err := codec.ToCloudEvent(ev)
				if err != nil {
					return err
				}
				line, err := ce.MarshalJSON()
				if err != nil {
					return fmt.Errorf("event %s: %w", ce.ID(), err)
				}
				var compact bytes.Buffer
				if err := json.Compact(&compact, line); err != nil {
					return fmt.Errorf("event %s: %w", ce.ID(), err)
				}
				compact.WriteByte('\n')
				if _, err := lines.Write(compact.Bytes()); err != nil {
					return err
				}
				n++
			}
			if n == 0 {
				return errors.Join(fmt.Errorf("session %s: %w", session, retention.ErrNoSession), out.Flush())
			}
		}
		return out.Flush()
	})
}

// Archive is `runner sessions archive`.
type Archive struct {
	Where   `embed:""`
	To      string   `placeholder:"FILE" brief:"" help:"Write to this new file (default SESSION.jsonl)."`
	Delete  bool     `brief:"" help:"Delete the session after archiving it."`
	Session []string `arg:"" optional:"" name:"session"`
}

// Check requires exactly one session.
func (a *Archive) Check(*cli.Call) (errs []error) {
	if errs = checkAll(a.Session); len(a.Session) > 1 {
		errs = append(errs, errors.New("archive takes one session at a time"))
	}
	return errs
}

// Run writes a temporary file and renames it, so that no partial archive is left.
func (a *Archive) Run(ctx context.Context, io *cli.IO) error {
	return a.with(ctx, io, func(ctx context.Context, p *place) error {
		session := a.Session[0]
		to := cmp.Or(a.To, session+".jsonl")
		s, err := p.archive(ctx, session, to)
		if err != nil {
			return err
		}
		fmt.Fprintf(io.Stdout, "%s: %d events in %s\n", session, s.Events, to)
		if !a.Delete {
			return nil
		}
		if err := syncDir(filepath.Dir(to)); err != nil {
			return fmt.Errorf("session %s is archived and not deleted: a power failure could lose %s: %w", session, to, err)
		}
		return p.delete(ctx, io, retention.Request{Session: session, At: s.Tail, Reason: "archived"})
	})
}

// syncDir makes the names of new files in a directory last: a file that is synced itself can still be lost with its
// name. Some file systems cannot sync a directory, nor can Windows.
func syncDir(path string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	dir, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }()
	if err := dir.Sync(); !errors.Is(err, syscall.EINVAL) && !errors.Is(err, errors.ErrUnsupported) {
		return err
	}
	return nil
}

func (p *place) archive(ctx context.Context, session, to string) (s archive.Summary, err error) {
	if _, err := os.Lstat(to); err == nil {
		return s, fmt.Errorf("%s already exists", to)
	}
	file, err := os.CreateTemp(filepath.Dir(to), ".loopbus-archive-*")
	if err != nil {
		return s, err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	s, err = archive.Write(ctx, p.store, session, file)
	if err == nil && s.Events == 0 {
		err = fmt.Errorf("archive session %s: %w", session, retention.ErrNoSession)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Link(file.Name(), to) // fails if the file exists
	}
	return s, err
}

// Restore is `runner sessions restore`.
type Restore struct {
	Where `embed:""`
	Files []string `arg:"" optional:"" name:"file"`
}

// Check requires at least one file.
func (r *Restore) Check(*cli.Call) []error {
	if len(r.Files) == 0 {
		return []error{errors.New("no file given")}
	}
	return nil
}

// Run restores the sessions.
func (r *Restore) Run(ctx context.Context, io *cli.IO) error {
	return r.with(ctx, io, func(ctx context.Context, p *place) error {
		return each(r.Files, io.Stderr, func(name string) error {
			s, err := p.restore(ctx, name)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			fmt.Fprintf(io.Stdout, "%s: restored, %d events\n", s.Session, s.Events)
			return nil
		})
	})
}

func (p *place) restore(ctx context.Context, name string) (s archive.Summary, err error) {
	file, err := os.Open(name)
	if err != nil {
		return s, err
	}
	defer func() { _ = file.Close() }()
	return archive.Restore(ctx, p.conn, p.store, file)
}
