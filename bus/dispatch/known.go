package dispatch

import (
	"context"
	"fmt"

	"github.com/loopbus/loopbus/bus/codec"
	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
)

// Holds reports whether a call is in its queue or its result in the session's inbox.
func (d *Dispatcher) Holds(ctx context.Context, req schemas.ToolRequest) (bool, error) {
	held, err := d.held(ctx, req)
	for _, stream := range []string{schemas.StreamTools, schemas.StreamCommands} {
		if err == nil && !held { // confirm that a leader said so
			_, err = natsio.ConfirmedInfo(ctx, d.conn.JetStream(), stream)
		}
	}
	if err == nil && !held {
		held, err = d.held(ctx, req)
	}
	if err != nil {
		return false, fmt.Errorf("dispatch: call %s of session %s: %w", req.Call, req.Session, err)
	}
	return held, nil
}

// held implements [Dispatcher.Holds]. A worker settles the call after it has stored the result, so checking the queue
// first misses neither.
func (d *Dispatcher) held(ctx context.Context, req schemas.ToolRequest) (bool, error) {
	waits, err := d.holds(ctx, schemas.StreamTools, d.subject(req), func(msg natsio.Stored) bool {
		return isCall(req, msg)
	})
	if waits || err != nil {
		return waits, err
	}
	results := d.conn.Subjects().Prefix() + ".cmd.*." + req.Session + "." + string(schemas.CommandToolResult)
	return d.holds(ctx, schemas.StreamCommands, results, func(msg natsio.Stored) bool {
		return isResult(req, msg)
	})
}

// holds reports whether a stream has a message for which is returns true. It reads what the stream has now, because
// others may add to the subject all the time.
func (d *Dispatcher) holds(ctx context.Context, stream, subject string,
	is func(natsio.Stored) bool) (bool, error) {
	js := d.conn.JetStream()
	info, err := natsio.LeaderInfo(ctx, js, stream)
	if err != nil {
		return false, err
	}
	for seq := uint64(1); seq <= info.State.LastSeq; {
		msg, found, err := natsio.Next(ctx, js, stream, subject, seq)
		switch {
		case err != nil:
			return false, fmt.Errorf("look for the call or its result in %s: %w", stream, err)
		case !found:
			return false, nil
		case is(msg):
			return true, nil
		}
		seq = msg.Sequence + 1
	}
	return false, nil
}

// isCall reports whether a message in the call's queue is the call. It may be the reply of a server, or a request of
// somebody who may call the tool and who does not know the call's nonce.
func isCall(req schemas.ToolRequest, msg natsio.Stored) bool {
	r, err := schemas.ParseToolRequest(msg.Data)
	return err == nil && r.IdempotencyKey() == req.IdempotencyKey()
}

// isResult reports whether a message in the session's inbox is the result that the session will take.
func isResult(req schemas.ToolRequest, msg natsio.Stored) bool {
	cmd, err := codec.DecodeCommand(req.Session, schemas.CommandToolResult, msg.Header, msg.Data, "stored", msg.Time)
	if err != nil {
		return false
	}
	response, ok := cmd.Data.(*schemas.ToolResponse)
	return ok && response.Call == req.Call && response.Answers(req.Nonce)
}
