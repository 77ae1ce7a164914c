package schemas

import (
	"fmt"
	"strconv"
	"time"
)

// Headers of a commit: the message of a session's log that holds one or more events as a CloudEvents JSON batch.
const (
	HeaderCommit   = "Loopbus-Commit"   // format and sequences of the first and the last event: "v2 12-15"
	HeaderPrevious = "Loopbus-Previous" // [Hash] of the message of the log before it; the first has none
	// HeaderDispatch is in the message of a tool call: the part of the call's message ids besides session and call that
	// nobody can guess.
	HeaderDispatch = "Loopbus-Dispatch"
	ContentBatch   = "application/cloudevents-batch+json"

	commitFormat = "v2 " // v1 had one event a message, in binary mode
)

// Commit gathers events into one message of a log. The zero value is empty. It may be reused after [Commit.Reset]. It
// is not safe for concurrent use.
type Commit struct {
	First, Last uint64 // sequences; 0 while it is empty

	batch []byte
	env   Event // attributes of the last event
}

// AppendData appends the JSON of an event's data to dst.
func AppendData(dst []byte, data EventData) ([]byte, error) { return appendValue(dst, data) }

// Add appends an event. data is its data as [AppendData] returns it; if ref is set, the commit has the reference in
// place of the data. An attribute with the same value as in the event before is left out, as is a causationid that
// equals the correlationid. Add returns an error for an event that could not be decoded again.
func (c *Commit) Add(e *Event, data []byte, ref string) error {
	if c.Last > 0 && (e.Session != c.env.Session || e.Seq != c.Last+1) {
		return fmt.Errorf("schemas: event %s does not follow %s", e.ID(), c.env.ID())
	}
	if c.Last == 0 || e.Source == "" {
		if err := checkEnvelope(e.Session, e.Seq, e.Source); err != nil {
			return fmt.Errorf("schemas: encode event %s: %w", e.ID(), err)
		}
	}
	if nestedDeeper(data, maxNestedData) {
		return fmt.Errorf("schemas: encode event %s: its data are nested deeper than %d", e.ID(), maxNestedData)
	}
	b := c.batch
	if c.Last == 0 {
		b, c.First, c.env = append(b, '['), e.Seq, Event{}
	} else {
		b = append(b, ',')
	}
	b = append(b, `{"specversion":"`+SpecVersion+`","id":"`...)
	b = append(append(b, e.Session...), '/')
	b = strconv.AppendUint(b, e.Seq, 10)
	b = appendAttribute(append(b, '"'), "source", e.Source)
	b = append(append(b, `,"type":"`...), wireNames[e.Type()]...)
	b = append(b, '"')
	at := e.Time.Round(0).UTC() // without the monotonic clock, which Equal would compare
	if c.Last == 0 || !at.Equal(c.env.Time) {
		b = append(at.AppendFormat(append(b, `,"time":"`...), time.RFC3339Nano), '"')
	}
	b = appendChanged(b, "runid", e.RunID, c.env.RunID)
	b = appendChanged(b, "turnid", e.TurnID, c.env.TurnID)
	b = appendChanged(b, "correlationid", e.CorrelationID, c.env.CorrelationID)
	b = appendChanged(b, "causationid", e.CausationID, e.CorrelationID)
	b = appendChanged(b, "traceparent", e.TraceParent, c.env.TraceParent)
	if ref != "" {
		b = appendAttribute(b, "dataref", ref)
	} else {
		b = append(append(b, `,"data":`...), data...)
	}
	c.batch, c.Last, c.env = append(b, '}'), e.Seq, *e
	c.env.Data, c.env.Time = nil, at
	return nil
}

func appendChanged(b []byte, name, value, before string) []byte {
	if value == before {
		return b
	}
	return appendAttribute(b, name, value)
}

func appendAttribute(b []byte, name, value string) []byte {
	return appendString(append(append(append(b, `,"`...), name...), `":`...), value)
}

// Len returns the number of events.
func (c *Commit) Len() int {
	if c.Last == 0 {
		return 0
	}
	return int(c.Last - c.First + 1)
}

// Size returns the size of the payload in bytes.
func (c *Commit) Size() int { return len(c.batch) + 1 }

// Payload returns the batch of the events. It is valid until the next call of another method.
func (c *Commit) Payload() []byte {
	c.batch = append(c.batch, ']')
	payload := c.batch
	c.batch = c.batch[:len(c.batch)-1]
	return payload
}

// Reset empties the commit. It keeps the memory for reuse, unless that is large.
func (c *Commit) Reset() {
	if cap(c.batch) > maxPooled {
		c.batch = nil
	}
	*c = Commit{batch: c.batch[:0]}
}

// Header returns a fresh map with the headers of the commit. previous is the [Hash] of the message before, "" for none.
// The map has room for one more header.
func (c *Commit) Header(previous string) map[string][]string {
	span := strconv.AppendUint(append(make([]byte, 0, 32), commitFormat...), c.First, 10)
	span = strconv.AppendUint(append(span, '-'), c.Last, 10)
	lists := [...]string{ContentBatch, string(span), previous}
	h := make(map[string][]string, len(lists)+1)
	h[HeaderContentType], h[HeaderCommit] = lists[0:1:1], lists[1:2:2]
	if previous != "" {
		h[HeaderPrevious] = lists[2:3:3]
	}
	return h
}

// EncodeCommit returns the message of a log with these events, which must be consecutive. The PrevHash of the first is
// the hash of the message before. The headers are a fresh map.
func EncodeCommit(events ...Event) (header map[string][]string, payload []byte, err error) {
	var c Commit
	for i := range events {
		data, err := AppendData(nil, events[i].Data)
		if err == nil {
			err = c.Add(&events[i], data, "")
		}
		if err != nil {
			return nil, nil, err
		}
	}
	return c.Header(events[0].PrevHash), c.Payload(), nil
}
