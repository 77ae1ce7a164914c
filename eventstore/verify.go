package eventstore

import (
	"bytes"
	"context"
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
	Bad      *Fault // the first thing wrong, nil if nothing is
}

// OK reports whether nothing is wrong.
func (r Report) OK() bool { return r.Bad == nil }

// Fault is the first thing wrong with a log.
type Fault struct {
	Seq    uint64 // of the event that should be there
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
// schema and carries the hash of the stored bytes before it, that each was appended on the expectation of the one
// before it, that payloads kept elsewhere are there and match their digests, and that the snapshot belongs to the log
// and equals the refold. What is wrong is in the report; an error means that it could not be found out.
//
// That the last events of a log are missing cannot be seen from the log; a snapshot beyond its end shows it.
func (s *Store) Verify(ctx context.Context, session string, o VerifyOptions) (Report, error) {
	return verify(ctx, storeSource{s}, session, o)
}

// source is what verifying needs of a store.
type source interface {
	all(ctx context.Context, session string) iter.Seq2[record, error]
	fetchBlob(ctx context.Context, ref string) ([]byte, error)
	loadSnapshot(ctx context.Context, session string, version int) (snapshotHeader, []byte, error)
}

type storeSource struct{ *Store }

func (s storeSource) all(ctx context.Context, session string) iter.Seq2[record, error] {
	return func(yield func(record, error) bool) {
		head, _, err := s.end(ctx, session)
		if err != nil {
			yield(record{}, err)
			return
		}
		s.records(ctx, s.o.Subjects.Event(session), 0, head.stream)(yield)
	}
}

func verify(ctx context.Context, src source, session string, o VerifyOptions) (Report, error) {
	v := &verifier{src: src, session: session, report: Report{Session: session}}
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
	src     source
	session string
	report  Report

	snapshot snapshotHeader
	last     record // the record before
}

// run returns a *Fault for the first thing wrong.
func (v *verifier) run(ctx context.Context, o VerifyOptions) error {
	if err := schemas.CheckSession(v.session); err != nil {
		return err
	}
	// The snapshot comes first: read after the log it might be of an event that was appended in between.
	h, state, err := v.src.loadSnapshot(ctx, v.session, o.Version)
	if errors.Is(err, errBadSnapshot) {
		return v.snapshotFault(h, "a readable state", err.Error())
	}
	if err != nil {
		return err
	}
	v.snapshot = h
	for rec, err := range v.src.all(ctx, v.session) {
		if err != nil {
			return err
		}
		if err := v.check(ctx, rec); err != nil {
			return err
		}
		v.report.Events++
		v.last = rec
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

// check compares a record with what must come next.
func (v *verifier) check(ctx context.Context, rec record) error {
	if err := v.checkPlace(rec); err != nil {
		return err
	}
	if err := v.checkPayload(ctx, rec); err != nil {
		return err
	}
	if h := v.snapshot; h.Seq == v.report.Events+1 {
		if got := rec.hash(); got != h.Hash || rec.stream != h.Stream {
			return v.snapshotFault(h, fmt.Sprintf("the hash %s of message %d", got, rec.stream),
				fmt.Sprintf("%s of message %d", h.Hash, h.Stream))
		}
	}
	return nil
}

// checkPlace checks that the record is the next event and was appended as such.
func (v *verifier) checkPlace(rec record) error {
	seq := v.report.Events + 1
	fault := func(what, want, got string) error { return &Fault{seq, rec.stream, what, want, got} }
	for _, c := range []struct{ what, key, want string }{
		{"id", schemas.HeaderID, schemas.Event{Session: v.session, Seq: seq}.ID()},
		{"sequence", schemas.HeaderSequence, fmt.Sprintf("%020d", seq)},
		{"subject", schemas.HeaderSubject, v.session},
		{"version of CloudEvents", schemas.HeaderSpecVersion, schemas.SpecVersion},
	} {
		if got := first(rec.header, c.key); got != c.want {
			return fault(c.what, c.want, quoted(got))
		}
	}
	want := strconv.FormatUint(v.last.stream, 10)
	if got := first(rec.header, jetstream.ExpectedLastSubjSeqHeader); got != want {
		return fault("expected last message at the append", want, quoted(got))
	}
	wantHash := ""
	if seq > 1 {
		wantHash = v.last.hash()
	}
	if got := first(rec.header, schemas.HeaderPrevHash); got != wantHash {
		return fault("previous hash", quoted(wantHash), quoted(got))
	}
	return nil
}

func quoted(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func (v *verifier) checkPayload(ctx context.Context, rec record) error {
	seq := v.report.Events + 1
	payload := rec.payload
	if ref := schemas.DataRef(rec.header); ref != "" {
		var err error
		payload, err = v.src.fetchBlob(ctx, ref)
		if errors.Is(err, ErrDamaged) {
			return &Fault{seq, rec.stream, "payload in the object store", ref, err.Error()}
		}
		if err != nil {
			return err
		}
		v.report.Blobs++
	}
	name, err := schemas.ParseCloudEventType(first(rec.header, schemas.HeaderType))
	if err == nil {
		err = schemas.ValidateEvent(schemas.EventType(name), payload)
	}
	if err == nil {
		_, err = schemas.DecodeEvent(rec.header, payload)
	}
	if err != nil {
		return &Fault{seq, rec.stream, "schema", "a valid " + quoted(name), err.Error()}
	}
	return nil
}

// refold proves that the snapshot's state is the fold of the events up to it.
func (v *verifier) refold(ctx context.Context, state []byte, fold func(iter.Seq[schemas.Event]) ([]byte, error)) error {
	var readErr error
	again, err := fold(func(yield func(schemas.Event) bool) {
		n := uint64(0)
		for rec, err := range v.src.all(ctx, v.session) {
			var e schemas.Event
			if err == nil {
				e, err = rec.decode(ctx, v.src.fetchBlob)
			}
			if err != nil {
				readErr = err
				return
			}
			if n++; !yield(e) || n == v.snapshot.Seq {
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
	return fmt.Sprintf("%d bytes with the SHA-256 %s", len(state), blobName(state))
}
