// Package archive writes a session's log to a file and brings it back. The file is text, one JSON object a line: a
// first line that says what it is, the payloads that are kept in the object store, each before the message that names
// it, the messages of the log as they are stored, and a last line with their number and the hash of the last. So it
// proves itself: [Restore] checks the chain of hashes from the first message to the last, and a log that is restored is
// the one that was archived, byte for byte but for its places in the stream and the header [schemas.HeaderRestore].
package archive

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/schemas"
)

// version is that of the form.
const version = 1

// ErrBad is wrapped by errors about an archive that is not what [Write] wrote.
var ErrBad = errors.New("bad archive")

// Summary is what an archive holds. Hash is that of the last message.
type Summary struct {
	Session  string `json:"session"`
	Messages int    `json:"messages"`
	Events   uint64 `json:"events"`
	Payloads int    `json:"payloads"`
	Hash     string `json:"hash"`
	Tail     uint64 `json:"-"` // where the log ended in the stream when it was archived
}

// Write writes the log of a session as it is now. An error wraps [eventstore.ErrDamaged] where the log is not what its
// writers wrote, or has a header that [Restore] refuses; what has been written then is no archive.
func Write(ctx context.Context, store *eventstore.Store, session string, to io.Writer) (s Summary, err error) {
	w := bufio.NewWriter(to)
	lines := encoder(w)
	s.Session = session
	err = lines.Encode(line{Archive: &opening{version, session, time.Now().UTC()}})
	for m, readErr := range store.Messages(ctx, session) {
		if err = errors.Join(err, readErr); err != nil {
			break
		}
		if m.Foreign {
			continue
		}
		s.Tail = m.Stream
		kept := messageOf(m)
		if err = checkHeader(kept.Header); err != nil {
			err = fmt.Errorf("%w: after event %d: %w", eventstore.ErrDamaged, s.Events, err)
			break
		}
		if err = s.follow(m.Header, m.Payload, func(ref string) error {
			data, err := store.Payload(ctx, ref)
			if err != nil {
				return err
			}
			s.Payloads++
			return lines.Encode(line{Payload: &payload{ref, data}})
		}); err != nil {
			break
		}
		err = lines.Encode(line{Message: kept})
	}
	if err == nil {
		err = lines.Encode(line{End: &s})
	}
	if err == nil {
		err = w.Flush()
	}
	if err != nil {
		return s, fmt.Errorf("archive session %s: %w", session, err)
	}
	return s, nil
}

// follow checks that a message is the next of the log and counts it. named is called with each payload that it names.
func (s *Summary) follow(header map[string][]string, body []byte, named func(ref string) error) error {
	events, err := schemas.SplitLog(s.Session, header, body)
	if err != nil || len(events) == 0 {
		return fmt.Errorf("%w: after event %d: %w", eventstore.ErrDamaged, s.Events, err)
	}
	if events[0].Seq != s.Events+1 || events[0].PrevHash != s.Hash {
		return fmt.Errorf("%w: what follows event %d is not what was appended behind it", eventstore.ErrDamaged, s.Events)
	}
	for _, e := range events {
		if e.Ref == "" {
			continue
		}
		if err := named(e.Ref); err != nil {
			return fmt.Errorf("event %d: %w", e.Seq, err)
		}
	}
	s.Messages, s.Events, s.Hash = s.Messages+1, events[len(events)-1].Seq, schemas.Hash(header, body)
	return nil
}

// read reads an archive to its end, and checks it. Either function may be nil; an error of one ends the reading. An
// error wraps [ErrBad] where the file is not what [Write] wrote.
func read(from io.Reader, stored func(header map[string][]string, body []byte) error,
	kept func(ref string, data []byte) error,
) (s Summary, err error) {
	bad := func(format string, args ...any) (Summary, error) {
		return s, fmt.Errorf("%w: "+format, append([]any{ErrBad}, args...)...)
	}
	named := map[string]bool{} // by the reference of a payload: whether a message names it
	for d, n := json.NewDecoder(from), 1; ; n++ {
		var text json.RawMessage
		if err := d.Decode(&text); err != nil {
			return bad("line %d: %w", n, err)
		}
		l, fault := parse(text)
		switch {
		case n == 1 && (l.Archive == nil || l.Archive.Version != version):
			return bad("it does not begin as one of version %d", version)
		case fault != nil:
			return bad("line %d: %w", n, fault)
		case l.Archive != nil && n == 1:
			s.Session = l.Archive.Session
			if err := schemas.CheckSession(s.Session); err != nil {
				return bad("%w", err)
			}
		case l.Payload != nil:
			if !eventstore.IsPayload(l.Payload.Ref, l.Payload.Data) {
				return bad("line %d: the payload is not the one of its name", n)
			}
			if eventstore.NamesSession(l.Payload.Ref) && !eventstore.OwnPayload(s.Session, l.Payload.Ref) {
				return bad("line %d: the payload %.200s belongs to another session", n, l.Payload.Ref)
			}
			if !named[l.Payload.Ref] {
				named[l.Payload.Ref] = false
			}
			s.Payloads++
			if kept != nil {
				err = kept(l.Payload.Ref, l.Payload.Data)
			}
		case l.Message != nil:
			if fault := checkHeader(l.Message.Header); fault != nil {
				return bad("line %d: %w", n, fault)
			}
			if fault := s.follow(l.Message.Header, l.Message.body(), func(ref string) error {
				if _, there := named[ref]; !there {
					return fmt.Errorf("the payload %s is missing", ref)
				}
				named[ref] = true
				return nil
			}); fault != nil {
				return bad("line %d: %w", n, fault)
			}
			if stored != nil {
				err = stored(l.Message.Header, l.Message.body())
			}
		case l.End != nil:
			for ref, used := range named {
				if !used { // no deletion would find it
					return bad("no message names the payload %.200s", ref)
				}
			}
			if *l.End != s {
				return bad("it says that it holds %+v, and holds %+v", *l.End, s)
			}
			if fault := d.Decode(&text); !errors.Is(fault, io.EOF) {
				return bad("line %d: behind the end: %w", n+1, cmp.Or(fault, errOther))
			}
			return s, nil
		default:
			return bad("line %d: it is of no kind that is known", n)
		}
		if err != nil {
			return s, err
		}
	}
}
