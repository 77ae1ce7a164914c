package schemas

import (
	"bytes"
	"fmt"
	"strconv"
	"time"
)

// commitSplitter parses the batch of a commit.
type commitSplitter struct {
	jsonScanner
	events []StoredEvent
	at     StoredEvent // the event before, whose attributes the next one inherits

	timed bool                                                    // whether an event had a time
	has   struct{ specVersion, id, source, name, causation bool } // members of the current event
}

// event parses the next event.
func (s *commitSplitter) event() error {
	before := s.at.Seq
	s.at.Raw, s.at.Ref = nil, ""
	s.has = struct{ specVersion, id, source, name, causation bool }{}
	if err := s.list('{', '}', s.attribute); err != nil {
		s.at.Seq = before
		return err
	}
	s.at.Seq = before + 1
	if !s.has.causation {
		s.at.CausationID = s.at.CorrelationID
	}
	switch {
	case !s.has.specVersion, !s.has.id, !s.has.source, !s.has.name, !s.timed, (s.at.Raw == nil) == (s.at.Ref == ""):
		s.at.Seq = before
		return fmt.Errorf("%w: it lacks specversion, id, source, type, time or data", ErrAttribute)
	}
	s.events = append(s.events, s.at)
	return nil
}

// attribute parses the next member of an event. It skips unknown members.
func (s *commitSplitter) attribute() error {
	name, err := s.str()
	if err != nil || !s.skip(':') {
		return errJSON
	}
	e := &s.at
	switch string(name) {
	case "data":
		e.Raw, err = s.value()
		return err
	case "specversion":
		s.has.specVersion = true
		return s.constant("specversion", []byte(SpecVersion))
	case "id":
		s.has.id = true
		var id [96]byte
		return s.constant("id", strconv.AppendUint(append(append(id[:0], e.Session...), '/'), e.Seq+1, 10))
	case "source":
		s.has.source = true
		return s.attr("source", &e.Source, false)
	case "type":
		s.has.name = true
		return s.typeName()
	case "time":
		return s.timestamp()
	case "runid":
		return s.attr("runid", &e.RunID, true)
	case "turnid":
		return s.attr("turnid", &e.TurnID, true)
	case "correlationid":
		return s.attr("correlationid", &e.CorrelationID, true)
	case "causationid":
		s.has.causation = true
		return s.attr("causationid", &e.CausationID, true)
	case "traceparent":
		return s.attr("traceparent", &e.TraceParent, true)
	case "dataref":
		return s.attr("dataref", &e.Ref, false)
	}
	_, err = s.value()
	return err
}

// attr parses a string. It allocates none if the value equals that of the event before.
func (s *commitSplitter) attr(name string, into *string, mayBeEmpty bool) error {
	v, err := s.str()
	switch {
	case err != nil || len(v) == 0 && !mayBeEmpty:
		return fmt.Errorf("%w: %s is no text, or empty", ErrAttribute, name)
	case string(v) != *into:
		*into = string(v)
	}
	return nil
}

func (s *commitSplitter) constant(name string, want []byte) error {
	v, err := s.str()
	if err != nil || !bytes.Equal(v, want) {
		return fmt.Errorf("%w: %s is %.100q and not %s", ErrAttribute, name, v, want)
	}
	return nil
}

func (s *commitSplitter) typeName() error {
	v, err := s.str()
	if err != nil {
		return err
	}
	name, ok := bytes.CutPrefix(v, []byte(TypePrefix))
	if ok {
		name, ok = bytes.CutSuffix(name, []byte("."+Version))
	}
	if !ok {
		return &UnknownTypeError{What: "CloudEvents", Type: string(v)}
	}
	if s.at.Name = knownNames[string(name)]; s.at.Name == "" {
		s.at.Name = string(name)
	}
	return nil
}

// knownNames maps the names of the event types to themselves, so that parsing one allocates no string.
var knownNames = func() map[string]string {
	names := make(map[string]string, len(eventTypes))
	for t := range eventTypes {
		names[string(t)] = string(t)
	}
	return names
}()

func (s *commitSplitter) timestamp() error {
	v, err := s.str()
	if err == nil {
		s.at.Time, err = time.Parse(time.RFC3339Nano, string(v))
		s.at.Time, s.timed = s.at.Time.UTC(), true
	}
	if err != nil || s.at.Time.Year() < 0 || s.at.Time.Year() > 9999 {
		return fmt.Errorf("%w: time is no RFC 3339 time", ErrAttribute)
	}
	return nil
}
