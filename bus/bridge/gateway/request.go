package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/coder/websocket"

	"github.com/loopbus/loopbus/bus/bridge"
)

// maxValues limits the JSON values of a request.
const maxValues = 1 << 14

// request is a frame of a client.
type request struct {
	Type   string          `json:"type"`
	ID     string          `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"` // until they are decoded

	hold *bridge.Hold // released when the request is answered, or only waits
	view *bridge.Hold // of what the answer shows, nil for nothing; released when the answer is sent
	then func()       // called after the answer, if it is not nil
}

var errNoRequest = errors.New("a frame is not a request")

// read reads one request. An invalid frame, and one that the budget has no room for, ends the connection.
func (p *peer) read(ctx context.Context) (*request, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	kind, frame, err := p.ws.Reader(ctx)
	if err != nil {
		return nil, err
	}
	late := time.AfterFunc(p.b.o.ReadTimeout, cancel)
	defer late.Stop()
	req := &request{hold: p.b.budget.Hold(p.name)}
	data, err := req.hold.ReadAll(frame)
	switch {
	case errors.Is(err, bridge.ErrFull):
		req.hold.Release()
		p.shut(websocket.StatusTryAgainLater, err.Error()) // the id that an answer needs may be in the rest
	case err != nil:
	case kind != websocket.MessageText || json.Unmarshal(data, req) != nil || req.Type != "req" || req.ID == "" ||
		req.Method == "" || bridge.CheckID("id", req.ID) != nil || bridge.CheckID("method", req.Method) != nil:
		err = errNoRequest
		p.shut(websocket.StatusPolicyViolation, err.Error())
	}
	if err != nil {
		req.hold.Release()
		return nil, err
	}
	return req, nil
}

// decode decodes the params, and drops them.
func (r *request) decode(into any) error {
	params := r.Params
	if r.Params = nil; len(params) == 0 {
		params = json.RawMessage("{}")
	}
	if err := json.Unmarshal(params, into); err != nil {
		return &bridge.RequestError{Reason: "params: " + err.Error()}
	}
	return nil
}
