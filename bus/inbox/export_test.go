package inbox

import (
	"context"
	"errors"

	"github.com/loopbus/loopbus/schemas"
)

// Sweep sweeps one round of the stream for an inbox that does not run, and returns the sequence at which the next round
// starts.
func (in *Inbox) Sweep(ctx context.Context) (next uint64, err error) {
	if in.stream, err = in.conn.JetStream().Stream(ctx, schemas.StreamCommands); err != nil {
		return 0, err
	}
	in.sweepRound(ctx)
	return in.swept, nil
}

// LoseConsumer has the consumer replaced, as after a lost connection.
func (in *Inbox) LoseConsumer() { in.reader.Break(nil, errors.New("lost")) }

// TakeInputs takes all that inputs by reference may take at once, until release.
func (in *Inbox) TakeInputs(ctx context.Context) (release func(), err error) {
	return in.inputs.Wait(ctx, "", maxInputs)
}

// InputsIdle reports whether no input by reference takes anything or waits.
func (in *Inbox) InputsIdle() bool { return in.inputs.Idle() }
