package eventstore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strconv"

	"github.com/loopbus/loopbus/schemas"
)

// VerifyOptions configure what [Store.Verify] checks besides the log itself.
type VerifyOptions struct {
	// Version is the fold version whose snapshot is checked, if the session has one.
	Version int
	// Refold folds events, from the first on, and returns the state as it would be saved. If it is set, the snapshot must
	// equal the state refolded up to its event, byte for byte.
	Refold func(events iter.Seq[schemas.Event]) (state []byte, err error)
}

// Report is the result of a verification.
type Report struct {
	Session  string
	Events   uint64 // without a fault, from the first on
	Hash     string // of the message with the last of them, which the next message will have to carry
	Blobs    int    // payloads found in the object store that match their digests
	Snapshot uint64 // sequence of the snapshot that was checked, 0 if there is none
	// Foreign are the foreign messages on the log's subject, by their sequences in the stream: the first [MaxForeign] of
	// ForeignCount. They are no fault of the log.
	Foreign      []uint64
	ForeignCount int
	Bad          *Fault // the first fault, nil if there is none
}

// MaxForeign is the largest number of foreign messages that a [Report] names.
const MaxForeign = 32

// OK reports whether the verification found no fault.
func (r Report) OK() bool { return r.Bad == nil }

// Fault is the first difference between a log and what its writers stored.
type Fault struct {
	Seq    uint64 // of the first event that is wrong or missing
	Stream uint64 // stream sequence of the message that is wrong, 0 if there is none
	What   string // the part that is wrong: "id", "previous hash", …
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

// Verify reads the whole log of a session and checks it:
//   - the log has one order and no gap;
//   - each message contains the events that it declares, and each event matches its schema;
//   - each message carries the hash of the stored bytes of the one before it, and its append expected the message that
//     was the newest on the subject;
//   - payloads in the object store exist and match their digests;
//   - the snapshot belongs to the log and equals the refold.
//
// The report has the first fault. An error means that the verification could not be completed.
//
// The log alone does not show whether its last events were removed, or its last message was changed. A snapshot of
// those events does, and so does the report's hash, if it was kept.
func (s *Store) Verify(ctx context.Context, session string, o VerifyOptions) (Report, error) {
	return verify(ctx, s, session, o)
}

func verify(ctx context.Context, b backend, session string, o VerifyOptions) (Report, error) {
	v := &verifier{backend: b, chain: chain{session: session}, report: Report{Session: session}}
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
	backend  backend
	chain    chain
	report   Report
	snapshot snapshotHeader
}

// run returns a [*Fault] for the first fault.
func (v *verifier) run(ctx context.Context, o VerifyOptions) error {
	session := v.chain.session
	if err := schemas.CheckSession(session); err != nil {
		return err
	}
	// The snapshot is read first. Read after the log, it might be of an event that was appended in between.
	h, state, err := loadSnapshot(ctx, v.backend, session, o.Version)
	if errors.Is(err, errNoHeader) { // no snapshot, but a server's answer, which proves nothing about the log
		h, state, err = snapshotHeader{}, nil, nil
	}
	if errors.Is(err, errBadSnapshot) {
		return v.snapshotFault(h, "a readable state", err.Error())
	}
	if err != nil {
		return err
	}
	v.snapshot = h
	for rec, err := range all(ctx, v.backend, session, acknowledged) {
		if err == nil {
			err = v.check(ctx, rec)
		}
		if err != nil {
			return err
		}
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

func (v *verifier) snapshotFault(h snapshotHeader, want, got string) *Fault {
	return &Fault{Seq: h.Seq, What: "snapshot version " + strconv.Itoa(h.Version), Want: want, Got: got}
}

// check checks the next message on the subject.
func (v *verifier) check(ctx context.Context, rec record) error {
	if rec.foreign(v.chain.session) {
		v.chain.tail = rec.stream
		v.report.ForeignCount++
		if len(v.report.Foreign) < MaxForeign {
			v.report.Foreign = append(v.report.Foreign, rec.stream)
		}
		return nil
	}
	if fault := v.chain.check(rec); fault != nil {
		return fault
	}
	seq := v.report.Events + 1
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
	v.chain.seq, v.chain.tail, v.chain.hash = v.report.Events, rec.stream, rec.hash()
	v.report.Hash = v.chain.hash
	return nil
}

// split returns the record's events, which begin with seq, up to the first that is wrong.
func (v *verifier) split(rec record, seq uint64) ([]schemas.StoredEvent, error) {
	events, err := schemas.SplitLog(v.chain.session, rec.header, rec.payload)
	switch {
	case !rec.isCommit() && err != nil:
		return nil, &Fault{seq, rec.stream, "schema", "a valid event", err.Error()}
	case err == nil && rec.isCommit() && !json.Valid(rec.payload):
		return events, &Fault{seq, rec.stream, "commit", "a batch in JSON", "something else"}
	case err != nil:
		_, last, _ := rec.span(v.chain.session)
		want := fmt.Sprintf("the events %d to %d", seq, last)
		return events, &Fault{seq + uint64(len(events)), rec.stream, "commit", want, err.Error()}
	}
	return events, nil
}

// checkEvent checks an event's data.
func (v *verifier) checkEvent(ctx context.Context, rec record, e schemas.StoredEvent) error {
	if e.Ref != "" {
		raw, err := v.backend.payload(ctx, e.Ref)
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

// refold checks that the snapshot's state equals the fold of the events up to its own.
func (v *verifier) refold(ctx context.Context, state []byte, fold func(iter.Seq[schemas.Event]) ([]byte, error)) error {
	var readErr error
	again, err := fold(func(yield func(schemas.Event) bool) {
		session := v.chain.session
		records := members(session, all(ctx, v.backend, session, acknowledged))
		for e, err := range events(ctx, v.backend, session, records, 0, 1) {
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
