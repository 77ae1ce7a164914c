package client

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// RejectedError says that a session refused a command, which changed nothing. Code is one of the Reject codes of
// package schemas and stable; Reason is for people.
type RejectedError struct {
	Session   string
	CommandID string
	Kind      schemas.CommandKind
	Code      schemas.RejectCode
	Reason    string
}

// Error names the command, the code and the reason.
func (e *RejectedError) Error() string {
	return fmt.Sprintf("session %s rejected %s %s: %s (%s)", e.Session, e.Kind, e.CommandID, e.Reason, e.Code)
}

// WithdrawnError says that an input was withdrawn, or superseded by another prompt, before it had an effect. By is the
// id of the command that did it.
type WithdrawnError struct {
	Session    string
	CommandID  string
	Kind       schemas.CommandKind
	By         string
	Superseded bool // by a prompt that interrupts; otherwise by an abort, clear_queue or cancel_input
}

// Error names the command and what took it away.
func (e *WithdrawnError) Error() string {
	how := "withdrawn"
	if e.Superseded {
		how = "superseded"
	}
	return fmt.Sprintf("session %s: %s %s was %s by %s", e.Session, e.Kind, e.CommandID, how, e.By)
}

// ErrNotThere is wrapped where the server has no streams of loopbus: no runner has been started with it yet, or the
// URL, the account or the JetStream domain is another one's.
var ErrNotThere = errors.New("there are no streams of loopbus: no runner has been started with this server and account")

// ErrDamaged is wrapped where a log is not what a runner writes: events are missing from it, or cannot be read.
var ErrDamaged = errors.New("the log is damaged")

// errStop ends following because the caller has enough.
var errStop = errors.New("the caller has enough")

// passing reports whether an error is of a kind that goes away when a server, or the leader of a stream, is back.
func passing(err error) bool {
	if natsio.Passing(err) || natsio.IsAny(err, errIncomplete, jetstream.ErrConsumerNotFound,
		jetstream.ErrConsumerDeleted, jetstream.ErrJetStreamNotEnabled) {
		return true
	}
	var query *schemas.QueryError
	if errors.As(err, &query) {
		return query.Code == schemas.QueryBusy || query.Code == schemas.QueryUnavailable
	}
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.Code == http.StatusServiceUnavailable || api.ErrorCode == errCodeDuplicateInProcess)
}

// errCodeDuplicateInProcess says that a copy of the message with the same id is being replicated: asked again, the
// server knows what has become of it.
const errCodeDuplicateInProcess = 10158

// explain says what a request that had no answer is known to lack: a publish that is not permitted is answered only by
// the connection's last error, which has no more than a text to tell its subject.
func (c *Client) explain(err error, subjects ...string) error {
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrBucketNotFound) {
		return fmt.Errorf("%w (%w)", ErrNotThere, err)
	}
	last := c.nc.LastError()
	if !errors.Is(last, nats.ErrPermissionViolation) {
		return err
	}
	for _, subject := range subjects {
		if strings.Contains(strings.ToLower(last.Error()), strings.ToLower(subject)) {
			return last
		}
	}
	return err
}
