package natsio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/headerlimit"
)

// errNoMessage is returned for an answer without message and without error, which no server sends.
var errNoMessage = errors.New("the answer has neither a message nor an error")

// Last returns the newest message of a stream on subject, which may have wildcards. It asks the leader of the stream,
// because another replica may be behind. ok is false if there is no such message. Any other refusal of the server is an
// error of type [jetstream.APIError].
func Last(ctx context.Context, js jetstream.JetStream, stream, subject string) (m Stored, ok bool, err error) {
	return Get(ctx, js, stream, fmt.Appendf(nil, `{"last_by_subj":%s}`, quoted(subject)))
}

// At is like [Last] for the message with this sequence.
func At(ctx context.Context, js jetstream.JetStream, stream string, sequence uint64) (m Stored, ok bool, err error) {
	return Get(ctx, js, stream, fmt.Appendf(nil, `{"seq":%d}`, sequence))
}

// Next is like [Last] for the first message on subject that has this sequence or a higher one.
func Next(ctx context.Context, js jetstream.JetStream, stream, subject string, from uint64) (m Stored, ok bool,
	err error) {
	return Get(ctx, js, stream, fmt.Appendf(nil, `{"seq":%d,"next_by_subj":%s}`, max(from, 1), quoted(subject)))
}

// Get requests one message from the leader of a stream. request is the JSON body of the server's STREAM.MSG.GET. ok is
// false if there is none; other refusals of the server are errors of type [jetstream.APIError]. A stream without a
// leader does not answer, nor does a server that is lost: after five seconds the error is [nats.ErrTimeout], also if
// ctx has no deadline.
func Get(ctx context.Context, js jetstream.JetStream, stream string, request []byte) (m Stored, ok bool, err error) {
	limited, cancel := context.WithTimeoutCause(ctx, answerTimeout, nats.ErrTimeout)
	defer cancel()
	got, err := Request(limited, js.Conn(), APIPrefix(js)+"STREAM.MSG.GET."+stream, request)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		err = context.Cause(limited)
	}
	if err != nil {
		return m, false, err
	}
	var answer struct {
		Error   *jetstream.APIError `json:"error"`
		Message *struct {
			Subject string    `json:"subject"`
			Seq     uint64    `json:"seq"`
			Time    time.Time `json:"time"`
			Header  []byte    `json:"hdrs"`
			Data    []byte    `json:"data"`
		} `json:"message"`
	}
	if err := json.Unmarshal(got.Data, &answer); err != nil {
		return m, false, err
	}
	a := answer.Message
	switch {
	case a != nil:
	case answer.Error == nil:
		return m, false, errNoMessage
	case answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return m, false, nil
	default:
		return m, false, answer.Error
	}
	m = Stored{Subject: a.Subject, Sequence: a.Seq, Time: a.Time, Data: a.Data}
	switch {
	case len(a.Header) == 0:
	case headerlimit.Refused(a.Header):
		m.Header = nats.Header{headerlimit.Name: {strconv.Itoa(len(a.Header))}}
	default:
		if m.Header, err = nats.DecodeHeadersMsg(a.Header); err != nil {
			m.Header, m.Unreadable = nil, true
		}
	}
	return m, true, nil
}
