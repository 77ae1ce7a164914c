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
	// scanTimeout bounds the wait for one answer: a server may not give one.
	scanTimeout = 5 * time.Second
)

// Stored is a message as a stream has it.
type Stored struct {
	Subject  string
	Sequence uint64
	Time     time.Time
	Header   nats.Header // nil where Unreadable
	Data     []byte
	// Unreadable says that no library can read the header.
	Unreadable bool
}

// Scan gives take what a stream has from a sequence to another, the oldest first, until it returns an error. It asks
// for the messages directly, without a consumer: so it sees also those that no consumer is given, which are statuses
// and messages whose subjects have the character DEL, and needs none where a stream has as many as it may. It returns
// where to go on. The stream has to allow direct gets.
func Scan(ctx context.Context, js jetstream.JetStream, stream string, from, to uint64,
	take func(Stored) error) (next uint64, err error) {
	for next, more := from, true; ; {
		if !more || next > to {
			return next, nil
		}
		next, more, err = scanSome(ctx, js, stream, next, take)
		if err == nil && !more {
			next, more, err = scanOne(ctx, js, stream, next, take)
		}
		if err != nil {
			return next, fmt.Errorf("scan %s from %d on: %w", stream, next, err)
		}
	}
}

// scanSome gives one answer's worth of messages. It returns where to go on, and whether there was any.
func scanSome(ctx context.Context, js jetstream.JetStream, stream string, from uint64,
	take func(Stored) error) (next uint64, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	nc := js.Conn()
	answers := make(chan *nats.Msg, scanBatch+1) // NextMsg of nats.go takes a status for an error
	sub, err := nc.ChanSubscribe(NewInbox(nc), answers)
	if err != nil {
		return from, false, err
	}
	defer func() { _ = sub.Unsubscribe() }()
	request := fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">","batch":%d,"max_bytes":%d}`, from, scanBatch, scanBytes)
	if err := nc.PublishRequest(APIPrefix(js)+"DIRECT.GET."+stream, sub.Subject, request); err != nil {
		return from, false, err
	}
	for {
		var m *nats.Msg
		select {
		case m = <-answers:
		case <-ctx.Done():
			return from, more, ctx.Err()
		}
		s := Stored{Subject: Added(m.Header, jetstream.SubjectHeader), Header: m.Header, Data: m.Data}
		s.Sequence, _ = strconv.ParseUint(Added(m.Header, jetstream.SequenceHeader), 10, 64)
		if s.Sequence == 0 {
			return from, more, nil // the end of the answer
		}
		s.Time, _ = time.Parse(time.RFC3339Nano, Added(m.Header, jetstream.TimeStampHeaer))
		stripAdded(m.Header)
		if err := take(s); err != nil {
			return from, more, err
		}
		from, more = s.Sequence+1, true
	}
}

// stripAdded takes out of a header what the server has added to the stored one: the last value of each.
func stripAdded(header nats.Header) {
	for _, name := range []string{jetstream.StreamHeader, jetstream.SubjectHeader, jetstream.SequenceHeader,
		jetstream.TimeStampHeaer, jetstream.LastSequenceHeader, "Nats-Num-Pending"} {
		if v := header[name]; len(v) > 1 {
			header[name] = v[:len(v)-1]
		} else {
			delete(header, name)
		}
	}
}

// scanOne does the same for the next message, whose header no library may be able to read: a batch ends before it.
func scanOne(ctx context.Context, js jetstream.JetStream, stream string, from uint64,
	take func(Stored) error) (next uint64, more bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, scanTimeout)
	defer cancel()
	got, err := Request(ctx, js.Conn(), APIPrefix(js)+"STREAM.MSG.GET."+stream,
		fmt.Appendf(nil, `{"seq":%d,"next_by_subj":">"}`, from))
	if err != nil {
		return from, false, err
	}
	var answer struct {
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Time    time.Time `json:"time"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(got.Data, &answer); err != nil {
		return from, false, err
	}
	m := answer.Message
	if m == nil {
		return from, false, nil
	}
	s := Stored{Subject: m.Subject, Sequence: m.Seq, Time: m.Time, Data: m.Data}
	if len(m.Header) > 0 {
		if s.Header, err = nats.DecodeHeadersMsg(m.Header); err != nil {
			s.Header, s.Unreadable = nil, true
		}
	}
	if err := take(s); err != nil {
		return from, false, err
	}
	return m.Seq + 1, true, nil
}
