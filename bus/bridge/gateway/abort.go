package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

const (
	abortReason  = "aborted by a client of the gateway"
	abortTimeout = 30 * time.Second // limit for a session to carry out an abort
)

// chatAbort stops the run of a message, or everything in the session. A message of which no run has begun is withdrawn.
// The answer is what the session has done, in the order of its inbox.
func (p *peer) chatAbort(ctx context.Context, req *request) (any, error) {
	var params struct {
		SessionKey string `json:"sessionKey"`
		RunID      string `json:"runId"`
	}
	if err := req.decode(&params); err != nil {
		return nil, err
	}
	if params.SessionKey == "" {
		return nil, &bridge.RequestError{Reason: "sessionKey is missing"}
	}
	f, err := p.open(ctx, p.session(params.SessionKey), true)
	if err != nil {
		return nil, err
	}
	defer f.Room.Release()
	ctx, cancel := context.WithTimeout(ctx, abortTimeout)
	defer cancel()
	var ids []string
	if params.RunID == "" {
		ids, err = stop(ctx, f, &schemas.Abort{Reason: abortReason, ClearQueue: true})
	} else {
		ids, err = stopRun(ctx, f, bridge.CommandID(params.RunID))
	}
	if refused(err, schemas.RejectNoRun, schemas.RejectNotFound, schemas.RejectConsumed) {
		return map[string]any{"ok": true, "aborted": false, "runIds": []string{}}, nil
	}
	return map[string]any{"ok": true, "aborted": true, "runIds": ids}, err
}

// stopRun stops the run that clients know by the id. If the run has not begun, its message may still wait, in a queue
// of the session or in the inbox: then it is withdrawn, unless the run begins first.
func stopRun(ctx context.Context, f *bridge.Follower, id string) ([]string, error) {
	if !isRunning(&f.State, id) {
		ids, err := stop(ctx, f, &schemas.CancelInput{InputID: id})
		if !refused(err, schemas.RejectConsumed) || !isRunning(&f.State, id) {
			return ids, err
		}
	}
	return stop(ctx, f, &schemas.Abort{Reason: abortReason})
}

func isRunning(s *loop.State, id string) bool {
	return s.Run != nil && runID(s.Run.Command, s.Run.ID) == id
}

// stop sends a command that stops something, and follows the log to its outcome. It returns the ids of the run that the
// command ends and of the messages that it withdraws.
func stop(ctx context.Context, f *bridge.Follower, command schemas.CommandData) ([]string, error) {
	sent, err := f.Session.Send(ctx, command)
	if err != nil {
		return nil, err
	}
	ids := []string{}
	for item, err := range f.Items(ctx) {
		if err != nil {
			return nil, fmt.Errorf("%s is stored, its outcome is not known: %w", command.CommandKind(), err)
		}
		if item.Event == nil {
			continue
		}
		switch d := item.Event.Data.(type) {
		case *schemas.CommandAccepted:
			if run := f.State.Run; d.CommandID == sent.ID && d.Kind == schemas.CommandAbort && run != nil {
				ids = append(ids, runID(run.Command, run.ID))
			}
		case *schemas.CommandWithdrawn:
			if d.By == sent.ID {
				ids = append(ids, d.CommandID)
			}
		case *schemas.CommandApplied:
			if d.CommandID == sent.ID {
				return ids, nil
			}
		case *schemas.CommandRejected:
			if d.CommandID == sent.ID {
				return nil, &client.RejectedError{Session: f.Session.ID(), CommandID: sent.ID, Kind: d.Kind, Code: d.Code,
					Reason: d.Reason}
			}
		}
	}
	return nil, ctx.Err()
}

// refused reports whether the session has refused a command for one of the reasons.
func refused(err error, codes ...schemas.RejectCode) bool {
	var rejected *client.RejectedError
	return errors.As(err, &rejected) && slices.Contains(codes, rejected.Code)
}
