package natsio

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	scanBatch = 256     // messages in one answer
	scanBytes = 4 << 20 // of one answer
)

// answerTimeout bounds the silence of a server that answers. Tests shorten it.
var answerTimeout = 5 * time.Second

// Stored is a message of a stream.
type Stored struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	Header   nats.Header // nil where Unreadable; without what package headerlimit leaves out
	Data     []byte
	// Unreadable is true if the header could not be decoded.
	Unreadable bool
}

// Scan calls take with the messages of a stream from sequence from to sequence to, in order, until take returns an
// error. It returns the sequence at which to continue. Scan uses direct gets, which the stream has to allow, and no
// consumer: so it also reads messages that no consumer delivers (statuses, and messages whose subjects contain the
// character DEL), and works if the stream has as many consumers as it may have.
func Scan(ctx context.Context, js jetstream.JetStream, stream string, from, to uint64,
	take func(Stored) error) (next uint64, err error) {
	return ScanSubject(ctx, js, stream, ">", from, to, take)
}

// ScanSubject is like [Scan] for the messages on one subject, which may have wildcards.
func ScanSubject(ctx context.Context, js jetstream.JetStream, stream, subject string, from, to uint64,
	take func(Stored) error) (next uint64, err error) {
	for next, more := from, true; ; {
		if !more || next > to {
			return next, nil
		}
		next, more, err = scanSome(ctx, js, stream, subject, next, take)
		if err == nil && !more {
			next, more, err = scanOne(ctx, js, stream, subject, next, take)
		}
		if err != nil {
			return next, fmt.Errorf("scan %s from %d on: %w", stream, next, err)
		}
	}
}

// scanSome scans the messages of one answer. It returns where to continue, and whether there were any.
func scanSome(ctx context.Context, js jetstream.JetStream, stream, subject string, from uint64,
	take func(Stored) error) (next uint64, more bool, err error) {
	answer, err := scanAnswer(ctx, js, stream, subject, from)
	for _, s := range answer {
		if err := take(s); err != nil {
			return from, more, err
		}
		from, more = s.Sequence+1, true
	}
	return from, more, err
}

// scanAnswer returns the messages of one answer, also with an error. The server must not be silent for answerTimeout.
func scanAnswer(ctx context.Context, js jetstream.JetStream, stream, subject string, from uint64) (answer []Stored,
	err error) {
	nc := js.Conn()
	release, err := Reserve(ctx, nc, scanBytes)
	if err != nil {
		return nil, err
	}
	defer release()
	messages := make(chan *nats.Msg, scanBatch+1) // NextMsg of nats.go returns an error for a status
	sub, err := nc.ChanSubscribe(NewInbox(nc), messages)
	if err != nil {
		return nil, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%s,"batch":%d,"max_bytes":%d}`, from, quoted(subject), scanBatch,
		scanBytes)
	if err := nc.PublishRequest(APIPrefix(js)+"DIRECT.GET."+stream, sub.Subject, request); err != nil {
		return nil, err
	}
	silent := time.NewTimer(answerTimeout)
	defer silent.Stop()
	for {
		var m *nats.Msg
		select {
		case m = <-messages:
		case <-silent.C:
			return answer, context.DeadlineExceeded
		case <-ctx.Done():
			return answer, ctx.Err()
		}
		silent.Reset(answerTimeout)
		s := Stored{Subject: Added(m.Header, jetstream.SubjectHeader), Header: m.Header, Data: m.Data}
		s.Sequence, _ = strconv.ParseUint(Added(m.Header, jetstream.SequenceHeader), 10, 64)
		if s.Sequence < max(from, 1) {
			return answer, nil // the end of the answer
		}
		from = s.Sequence + 1
		s.Time, _ = time.Parse(time.RFC3339Nano, Added(m.Header, jetstream.TimeStampHeaer))
		StripAdded(m.Header)
		answer = append(answer, s)
	}
}

// quoted returns a subject in JSON.
func quoted(subject string) []byte {
	text, _ := json.Marshal(subject) // a text always encodes
	return text
}

// StripAdded removes from the header of a direct get's answer what the server has added to the stored one: the last
// value of each.
func StripAdded(header nats.Header) {
	for _, name := range []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader,
		jetstream.TimeStampHeaer, jetstream.LastSequenceHeader, "Nats-Num-Pending"} {
		if v := header[name]; len(v) > 1 {
			header[name] = v[:len(v)-1]
		} else {
			delete(header, name)
		}
	}
}

// scanOne scans the next message by a request to the leader. A batch ends before a message whose header cannot be
// decoded.
func scanOne(ctx context.Context, js jetstream.JetStream, stream, subject string, from uint64,
	take func(Stored) error) (next uint64, more bool, err error) {
	s, ok, err := Next(ctx, js, stream, subject, from)
	if err != nil || !ok {
		return from, false, err
	}
	if err := take(s); err != nil {
		return from, false, err
	}
	return s.Sequence + 1, true, nil
}
