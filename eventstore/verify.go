package eventstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/schemas"
)

// VerifyOptions say what to prove besides the log itself.
type VerifyOptions struct {
	// Version is the fold version whose snapshot is checked, if the session has one.
	Version int
	// Refold folds events from the first on and returns the state as it would be saved. With it, the snapshot is
	// compared with the state refolded up to its event, byte for byte. Nil leaves that out.
	Refold func(events iter.Seq[schemas.Event]) (state []byte, err error)
}

// Report is what a verification found.
type Report struct {
	Session  string
	Events   uint64 // found good, from the first on
	Blobs    int    // payloads found in the object store, matching their digest
	Snapshot uint64 // sequence of the snapshot that was checked, 0 if there is none
	// Foreign are the messages on the log's subject that are none of it, by their sequences in the stream: the first
	// [MaxForeign] of ForeignCount. They are no fault of the log.
	Foreign      []uint64
	ForeignCount int
	Bad          *Fault // the first thing wrong, nil if nothing is
}

// MaxForeign is how many foreign messages a [Report] names.
const MaxForeign = 32

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return r.Bad == nil }

// Fault is the first thing wrong with a log.
type Fault struct {
	Seq    uint64 // of the first event that is wrong, or should be there
	Stream uint64 // sequence in the stream of the message that is, 0 if there is none
	What   string // what is wrong: "id", "previous hash", …
	Want   string
	Got    string
}

// Error names the event, what was expected and what was found.
func (f *Fault) Error() string {
	s := fmt.Sprintf("event %d: %s: expected %s, found %s", f.Seq, f.What, f.Want, f.Got)
	if f.Stream > 0 {
		s += fmt.Sprintf(" (message %d of the stream)", f.Stream)
	}
	return s
}

// Verify reads the whole log of a session and checks that it has no gap and one order, that each event matches its
// schema, that each message has the events it says and carries the hash of the stored bytes of the one before it, that
// each was appended on the expectation of that one, that payloads kept elsewhere are there and match their digests,
// and that the snapshot belongs to the log and equals the refold. What is wrong is in the report; an error means that
// it could not be found out.
//
// That the last events of a log are missing cannot be seen from the log; a snapshot beyond its end shows it.
func (s *Store) Verify(ctx context.Context, session string, o VerifyOptions) (Report, error) {
	return verify(ctx, s, session, o)
}

func verify(ctx context.Context, k keeper, session string, o VerifyOptions) (Report, error) {
	v := &verifier{keep: k, session: session, report: Report{Session: session}}
	err := v.run(ctx, o)
	var fault *Fault
	if errors.As(err, &fault) {
		v.report.Bad, err = fault, nil
	}
	if err != nil {
		return v.report, fmt.Errorf("eventstore: verify session %s: %w", session, err)
	}
	return v.report, nil
}

type verifier struct {
	keep    keeper
	session string
	report  Report

	snapshot snapshotHeader
	hash     string // of the log's message before
	tail     uint64 // place of the message before, foreign or not
}

// run returns a *Fault for the first thing wrong.
func (v *verifier) run(ctx context.Context, o VerifyOptions) error {
	if err := schemas.CheckSession(v.session); err != nil {
		return err
	}
	// The snapshot comes first: read after the log it might be of an event that was appended in between.
	h, state, err := loadSnapshot(ctx, v.keep, v.session, o.Version)
	if errors.Is(err, errNoHeader) { // whoever may publish anything can put one there, which says nothing of the log
		h, state, err = snapshotHeader{}, nil, nil
	}
	if errors.Is(err, errBadSnapshot) {
		return v.snapshotFault(h, "a readable state", err.Error())
	}
	if err != nil {
		return err
	}
	v.snapshot = h
	for rec, err := range all(ctx, v.keep, v.session, asStored) {
		if err != nil {
			return err
		}
		if rec.foreign(v.session) {
			v.foreign(rec)
			continue
		}
		if err := v.check(ctx, rec); err != nil {
			return err
		}
		v.hash, v.tail = rec.hash(), rec.stream
	}
	if h.Seq == 0 {
		return nil
	}
	if h.Seq > v.report.Events {
		return v.snapshotFault(h, "an event of the log", fmt.Sprintf("the log ends at %d", v.report.Events))
	}
	v.report.Snapshot = h.Seq
	if o.Refold == nil {
		return nil
	}
	return v.refold(ctx, state, o.Refold)
}

func (v *verifier) foreign(rec record) {
	v.tail = rec.stream
	v.report.ForeignCount++
	if len(v.report.Foreign) < MaxForeign {
		v.report.Foreign = append(v.report.Foreign, rec.stream)
	}
}

func (v *verifier) snapshotFault(h snapshotHeader, want, got string) *Fault {
	return &Fault{Seq: h.Seq, What: "snapshot version " + strconv.Itoa(h.Version), Want: want, Got: got}
}

// check compares a record with what must come next.
func (v *verifier) check(ctx context.Context, rec record) error {
	seq := v.report.Events + 1
	if fault := checkPlace(rec, v.session, seq, v.tail, v.hash); fault != nil {
		return fault
	}
	events, err := v.split(rec, seq)
	for _, e := range events {
		if err := v.checkEvent(ctx, rec, e); err != nil {
			return err
		}
		v.report.Events++
	}
	if err != nil {
		return err
	}
	if h := v.snapshot; seq <= h.Seq && h.Seq <= v.report.Events {
		if got := rec.hash(); got != h.Hash || rec.stream != h.Stream {
			return v.snapshotFault(h, fmt.Sprintf("the hash %s of message %d", got, rec.stream),
				fmt.Sprintf("%s of message %d", h.Hash, h.Stream))
		}
	}
	return nil
}

// checkPlace checks that a record begins with the next event and was appended as such: behind the message of the log
// with this hash, and behind the newest message on the subject, at the place tail.
func checkPlace(rec record, session string, seq, tail uint64, hash string) *Fault {
	fault := func(what, want, got string) *Fault { return &Fault{seq, rec.stream, what, want, got} }
	type header struct{ what, key, want string }
	headers := []header{
		{"id", schemas.HeaderID, schemas.Event{Session: session, Seq: seq}.ID()},
		{"sequence", schemas.HeaderSequence, fmt.Sprintf("%020d", seq)},
		{"subject", schemas.HeaderSubject, session},
		{"version of CloudEvents", schemas.HeaderSpecVersion, schemas.SpecVersion},
	}
	previous := schemas.HeaderPrevHash
	if rec.isCommit() {
		headers = []header{{"content type", schemas.HeaderContentType, schemas.ContentBatch}}
		previous = schemas.HeaderPrevious
		if from, _, err := rec.span(session); err != nil || from != seq {
			return fault("commit", fmt.Sprintf("one from event %d on", seq), quoted(first(rec.header, schemas.HeaderCommit)))
		}
	}
	headers = append(headers,
		header{"expected last message at the append", jetstream.ExpectedLastSubjSeqHeader, fmt.Sprint(tail)},
		header{"previous hash", previous, hash})
	for _, h := range headers {
		if got := first(rec.header, h.key); got != h.want {
			return fault(h.what, quoted(h.want), quoted(got))
		}
	}
	return nil
}

// split returns the record's events, which begin with seq, up to the first that is not what it should be.
func (v *verifier) split(rec record, seq uint64) ([]schemas.StoredEvent, error) {
	events, err := schemas.SplitLog(v.session, rec.header, rec.payload)
	switch {
	case !rec.isCommit() && err != nil:
		return nil, &Fault{seq, rec.stream, "schema", "a valid event", err.Error()}
	case err == nil && rec.isCommit() && !json.Valid(rec.payload):
		return events, &Fault{seq, rec.stream, "commit", "a batch in JSON", "something else"}
	case err != nil:
		_, last, _ := rec.span(v.session)
		want := fmt.Sprintf("the events %d to %d", seq, last)
		return events, &Fault{seq + uint64(len(events)), rec.stream, "commit", want, err.Error()}
	}
	return events, nil
}

func quoted(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

// checkEvent checks an event's data.
func (v *verifier) checkEvent(ctx context.Context, rec record, e schemas.StoredEvent) error {
	if e.Ref != "" {
		raw, err := v.keep.fetchBlob(ctx, e.Ref)
		if errors.Is(err, ErrDamaged) {
			return &Fault{e.Seq, rec.stream, "payload in the object store", e.Ref, err.Error()}
		}
		if err != nil {
			return err
		}
		v.report.Blobs++
		e.Raw, e.Ref = raw, ""
	}
	err := schemas.ValidateEvent(schemas.EventType(e.Name), e.Raw)
	if err == nil {
		_, err = e.Decode(nil)
	}
	if err != nil {
		return &Fault{e.Seq, rec.stream, "schema", "a valid " + e.Name, err.Error()}
	}
	return nil
}

// refold proves that the snapshot's state is the fold of the events up to it.
func (v *verifier) refold(ctx context.Context, state []byte, fold func(iter.Seq[schemas.Event]) ([]byte, error)) error {
	var readErr error
	again, err := fold(func(yield func(schemas.Event) bool) {
		records := members(v.session, all(ctx, v.keep, v.session, asStored))
		for e, err := range events(ctx, v.session, records, 0, 1, v.keep.fetchBlob) {
			if err != nil {
				readErr = err
				return
			}
			if !yield(e) || e.Seq == v.snapshot.Seq {
				return
			}
		}
	})
	switch {
	case readErr != nil:
		return readErr
	case err != nil:
		return v.snapshotFault(v.snapshot, "a refold", err.Error())
	case !bytes.Equal(again, state):
		return v.snapshotFault(v.snapshot, digest(again), digest(state))
	}
	return nil
}

func digest(state []byte) string {
	return fmt.Sprintf("%d bytes with the SHA-256 %s", len(state), digestOf(state))
}
