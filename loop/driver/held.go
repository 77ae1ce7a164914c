package driver

import (
	"context"

	"github.com/loopbus/loopbus/loop"
	"github.com/loopbus/loopbus/schemas"
)

// Calls that are held back need no event: which they are follows from the state alone, so that whoever takes the session up
// holds the same. A result wakes the session and makes room for the next of them.

func (d *Driver) held() (held []bool) {
	d.View(func(s *loop.State) { held = loop.Held(s, d.o.CallsInQueue) })
	return held
}

// isHeld reports whether a call of the turn is held back.
func (d *Driver) isHeld(i int) bool {
	call, _, ok := d.call(i)
	f := d.flights[call.Key]
	return ok && f != nil && f.held
}

// hold takes the calls for which there is no room yet out of those that are ready.
func (d *Driver) hold(ready []schemas.ToolRequest) []schemas.ToolRequest {
	held := map[schemas.CallKey]bool{}
	d.View(func(s *loop.State) {
		for i, is := range loop.Held(s, d.o.CallsInQueue) {
			held[s.Run.Turn.Calls[i].Key] = is
		}
	})
	room := ready[:0]
	for _, req := range ready {
		f := d.flights[req.Call]
		if f.held = held[req.Call]; !f.held {
			room = append(room, req)
		}
	}
	return room
}

// release gives back the request of a call that was held. Where the run is to end, the call is answered at once if nobody has
// handed it over; an earlier process may have, and then it is waited for.
func (d *Driver) release(ctx context.Context, call loop.Call, f *flight, aborted bool) (*schemas.ToolRequest, error) {
	switch {
	case !aborted:
		return d.toolRequest(call, f.args), nil
	case call.StartSeq > d.loaded:
		return nil, d.refuse(ctx, call, loop.TextAborted)
	}
	f.held = false
	return nil, nil
}
