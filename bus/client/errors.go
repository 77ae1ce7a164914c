package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// RejectedError reports that a session refused a command, which changed nothing. Code is one of the stable Reject
// codes of package schemas; Reason is for people.
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

// WithdrawnError reports that an input was withdrawn, or superseded by another prompt, before it had an effect. By is
// the id of the command that caused it.
type WithdrawnError struct {
	Session    string
	CommandID  string
	Kind       schemas.CommandKind
	By         string
	Superseded bool // by an interrupting prompt; if false, withdrawn by an abort, clear_queue or cancel_input
}

// Error names the input and the command that withdrew or superseded it.
func (e *WithdrawnError) Error() string {
	how := "withdrawn"
	if e.Superseded {
		how = "superseded"
	}
	return fmt.Sprintf("session %s: %s %s was %s by %s", e.Session, e.Kind, e.CommandID, how, e.By)
}

// ErrNoStreams is wrapped by errors of requests to a server without loopbus streams: no runner has used this server
// yet, or the URL, the account or the JetStream domain is wrong. A cluster is asked again for RequestTimeout, because
// one that has just started may not know its streams yet.
var ErrNoStreams = errors.New("the server has no loopbus streams: start a runner with this server and account first, " +
	"or check the URL, the account and the JetStream domain")

// ErrInboxFull is wrapped if the inbox takes no more commands: a thousand commands of this kind wait for the session,
// or the inbox of all sessions has reached its size limit. Retry when the runners have caught up.
var ErrInboxFull = errors.New("the inbox is full: a thousand commands of this kind wait for the session, or the " +
	"inbox of all sessions has reached its limit; try again when runners have caught up")

// ErrUnacknowledged is wrapped if a command was published and the server did not say in time whether it stored it. To
// send it again with the same id ([WithID]) is harmless.
var ErrUnacknowledged = errors.New("not acknowledged, so it may be stored")

// ErrDamaged is wrapped if stored data is not what a runner writes: events of a log are missing or cannot be decoded,
// or a payload does not match its digest. The same error ends a loop whose session was deleted and has begun again.
var ErrDamaged = errors.New("the log is damaged")

// ErrDeleted is wrapped by the error that ends a loop whose session was deleted while it was followed.
var ErrDeleted = errors.New("the session was deleted, with its log")

// errStop is returned internally when the caller has left its loop.
var errStop = errors.New("the caller left the loop")

// isTransient reports whether an error is likely to disappear when a server, or the leader of a stream, is back. A
// cluster that has just started may not know its streams yet.
func (c *Client) isTransient(err error) bool {
	if natsio.Passing(err) || natsio.IsAny(err, errIncomplete, jetstream.ErrConsumerNotFound,
		jetstream.ErrJetStreamNotEnabled) {
		return true
	}
	if isAbsent(err) {
		return c.nc.ConnectedClusterName() != ""
	}
	var query *schemas.QueryError
	if errors.As(err, &query) {
		return query.Code == schemas.QueryBusy || query.Code == schemas.QueryUnavailable
	}
	var api *jetstream.APIError
	return errors.As(err, &api) &&
		(api.Code == http.StatusServiceUnavailable || api.ErrorCode == errCodeDuplicateInProcess)
}

// isAbsent reports whether a server has answered that it has no such stream.
func isAbsent(err error) bool {
	return natsio.IsAny(err, jetstream.ErrStreamNotFound, jetstream.ErrBucketNotFound)
}

// errCodeDuplicateInProcess is the server's code for a message whose copy with the same id is being replicated. On a
// retry the server knows the outcome.
const errCodeDuplicateInProcess = 10158

// explain improves the error of a request to one of the subjects. NATS does not answer a publish that is not
// permitted: the violation is known only from the connection's last error, and the subject only from the text of that
// error.
func (c *Client) explain(err error, subjects ...string) error {
	if isAbsent(err) {
		return fmt.Errorf("%w (%w)", ErrNoStreams, err)
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

// retry calls f until it succeeds, fails with a permanent error, or time runs out: the deadline of ctx, or
// RequestTimeout. The first attempts have shorter limits than later ones, because a missing permission shows only
// after a request has timed out.
func (c *Client) retry(ctx context.Context, f func(ctx context.Context) error) error {
	all, cancel := context.WithTimeout(ctx, c.o.RequestTimeout)
	defer cancel()
	limit, last := firstTimeout, error(nil)
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		one, cancel := context.WithTimeout(all, limit)
		err := f(one)
		cancel()
		limit *= 2
		if err == nil || !c.isTransient(err) {
			return err
		}
		if last == nil || !errors.Is(err, context.DeadlineExceeded) { // a timeout tells less than the error before it
			last = err
		}
		if natsio.TooMany(err) { // the server accepts a share of all attempts: backing off lowers ours
			pause = minPause
		}
		if all.Err() == nil {
			wait(all, pause)
		}
		switch {
		case ctx.Err() != nil && errors.Is(last, ErrInboxFull):
			return fmt.Errorf("%w: %w", ctx.Err(), last)
		case ctx.Err() != nil:
			return ctx.Err()
		case all.Err() != nil:
			return fmt.Errorf("gave up after %s: %w", c.o.RequestTimeout, last)
		}
	}
}

// reread calls read, which may continue where it has stopped, until it succeeds, fails with a permanent error, or ctx
// ends. more reports whether a call has read something.
func (c *Client) reread(ctx context.Context, log *slog.Logger, read func(context.Context) (more bool, err error),
) error {
	var refused time.Time // since when the server reports that it has no JetStream or no stream
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		more, err := read(ctx)
		switch {
		case err == nil || !c.isTransient(err) || ctx.Err() != nil:
			return err
		case !isAbsent(err) && !errors.Is(err, jetstream.ErrJetStreamNotEnabled):
			refused = time.Time{}
		case refused.IsZero():
			refused = time.Now()
		case time.Since(refused) > c.o.RequestTimeout:
			return err
		}
		if more {
			pause = minPause
		} else if pause == maxPause {
			log.Warn("reading failed, will retry", "err", err)
		}
		wait(ctx, pause)
	}
}

// wait waits for d or until ctx ends.
func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}
