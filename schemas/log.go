package schemas

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// ErrElsewhere is the error of an event whose data is in the object store and was not fetched.
var ErrElsewhere = errors.New("data is kept in the object store")

// StoredEvent is an event in a message of a log: its attributes, and its data as it is stored.
type StoredEvent struct {
	Event        // without Data
	Name  string // of its type; a newer writer may have types that this package does not know
	Raw   []byte // its data; part of the message
	Ref   string // where the data is kept instead, or ""
}

// Decode returns the event with its data. If the data is in the object store, fetch returns it; with a nil fetch such
// an event is an error wrapping [ErrElsewhere].
func (s StoredEvent) Decode(fetch func(ref string) ([]byte, error)) (Event, error) {
	e, raw := s.Event, s.Raw
	err := error(nil)
	switch {
	case s.Ref == "":
	case fetch == nil:
		err = ErrElsewhere
	default:
		raw, err = fetch(s.Ref)
	}
	if err == nil {
		e.Data, err = DecodeEventData(EventType(s.Name), raw)
	}
	if err != nil {
		return Event{}, fmt.Errorf("schemas: event %s: %w", s.ID(), err)
	}
	return e, nil
}

// LogSpan returns the sequences of the first and the last event in a message of a session's log, from its headers. An
// error wraps [ErrAttribute].
func LogSpan(session string, header map[string][]string) (first, last uint64, err error) {
	r := attributes{header: header}
	if span := r.optional(HeaderCommit); span != "" {
		span, known := strings.CutPrefix(span, commitFormat)
		from, to, ok := strings.Cut(span, "-")
		first, errFirst := parseCount(from)
		last, errLast := parseCount(to)
		if !known || !ok || errFirst != nil || errLast != nil || last < first {
			return 0, 0, fmt.Errorf("schemas: %w: %s %.60q", ErrAttribute, HeaderCommit, header[HeaderCommit])
		}
		return first, last, nil
	}
	id := r.optional(HeaderID)
	of, seq, err := splitID(id)
	if err == nil && of != session {
		err = fmt.Errorf("schemas: %w: %.100q is no event of session %s", ErrAttribute, id, session)
	}
	return seq, seq, err
}

// IsLog reports whether a message on the subject of a session's log belongs to it, whole or damaged: a commit, or an
// event in binary mode, whose id names this session. Any other message was not written by a log.
func IsLog(session string, header map[string][]string, payload []byte) bool {
	if header[HeaderCommit] != nil {
		of, known := firstSession(session, payload)
		return !known || of == session
	}
	of, _, err := splitID((&attributes{header: header}).optional(HeaderID))
	return err == nil && of == session
}

// firstSession returns the session that the id of a batch's first event names. session is the expected one.
func firstSession(session string, batch []byte) (of string, known bool) {
	rest, ok := bytes.CutPrefix(batch, []byte(`[{"specversion":"`+SpecVersion+`","id":"`))
	if ok && len(rest) > len(session) && string(rest[:len(session)]) == session && rest[len(session)] == '/' {
		return session, true
	}
	var first struct{ ID string }
	d := json.NewDecoder(bytes.NewReader(batch))
	if _, err := d.Token(); err != nil || d.Decode(&first) != nil {
		return "", false
	}
	of, _, err := splitID(first.ID)
	return of, err == nil
}

// maxPrepared bounds the memory that is allocated because a header declares a number of events.
const maxPrepared = 64

// SplitLog returns the events in a message of a session's log, as its headers declare them: those of a commit, or the
// one event of a message in binary mode. It does not decode their data. An error wraps [ErrAttribute], or is an
// [UnknownTypeError] for a type that no version has.
func SplitLog(session string, header map[string][]string, payload []byte) ([]StoredEvent, error) {
	first, last, err := LogSpan(session, header)
	if err != nil {
		return nil, err
	}
	if header[HeaderCommit] == nil {
		e, err := splitBinary(header, payload)
		return []StoredEvent{e}, err
	}
	s := commitSplitter{jsonScanner: jsonScanner{text: payload}}
	s.events = make([]StoredEvent, 0, min(last-first+1, maxPrepared))
	s.at = StoredEvent{Event: Event{Session: session, Seq: first - 1}}
	s.at.PrevHash = (&attributes{header: header}).optional(HeaderPrevious)
	err = s.list('[', ']', s.event)
	switch {
	case err == nil && s.next() != 0:
		err = fmt.Errorf("%w: %w: something follows the batch", ErrAttribute, errJSON)
	case err == nil && s.at.Seq != last:
		err = fmt.Errorf("%w: the commit has %d of its %d events", ErrAttribute, len(s.events), last-first+1)
	case errors.Is(err, errJSON):
		err = fmt.Errorf("%w: %w", ErrAttribute, err)
	}
	if err != nil {
		return s.events, fmt.Errorf("schemas: event %d of commit %d-%d of session %s: %w",
			s.at.Seq+1, first, last, session, err)
	}
	return s.events, nil
}

// DecodeLog returns the events in a message of a session's log, as it is stored or republished. fetch returns the data
// that is in the object store under a dataref; with a nil fetch such an event is an error wrapping [ErrElsewhere].
func DecodeLog(session string, header map[string][]string, payload []byte, fetch func(ref string) ([]byte, error),
) ([]Event, error) {
	stored, err := SplitLog(session, header, payload)
	if err != nil {
		return nil, err
	}
	events := make([]Event, len(stored))
	for i, s := range stored {
		if events[i], err = s.Decode(fetch); err != nil {
			return nil, err
		}
	}
	return events, nil
}

// splitBinary decodes the headers of a message with one event.
func splitBinary(header map[string][]string, payload []byte) (StoredEvent, error) {
	env, err := readEnvelope(header)
	if err != nil {
		return StoredEvent{}, err
	}
	session, seq, err := splitID(env.id)
	if err != nil {
		return StoredEvent{}, err
	}
	return StoredEvent{
		Name: env.name, Raw: payload, Ref: DataRef(header),
		Event: Event{
			Session: session, Seq: seq, Time: env.time, Source: env.source, RunID: env.runID, TurnID: env.turnID,
			CorrelationID: env.correlationID, CausationID: env.causationID,
			TraceParent: env.traceParent, PrevHash: env.prevHash,
		},
	}, nil
}
