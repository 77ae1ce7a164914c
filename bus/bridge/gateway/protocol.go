package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/client"
)

const (
	protocol    = 4
	maxPreauth  = 64 << 10 // limit of a frame before hello-ok, in bytes
	maxFrame    = 8 << 20  // limit of a frame afterwards: room for a message with images
	maxRequests = 16       // requests of a connection in progress, or behind an earlier one of their session
)

type response struct {
	Type    string      `json:"type"`
	ID      string      `json:"id"`
	OK      bool        `json:"ok"`
	Payload any         `json:"payload,omitempty"`
	Error   *errorShape `json:"error,omitempty"`
}

type errorShape struct {
	Code      string         `json:"code"`
	Message   string         `json:"message"`
	Details   map[string]any `json:"details,omitempty"`
	Retryable bool           `json:"retryable,omitempty"`
}

type connectParams struct {
	MinProtocol int      `json:"minProtocol"`
	MaxProtocol int      `json:"maxProtocol"`
	Role        string   `json:"role"`
	Scopes      []string `json:"scopes"`
	Caps        []string `json:"caps"`
	Auth        struct {
		Token    string `json:"token"`
		Password string `json:"password"`
	} `json:"auth"`
}

// scopes are the scopes that the methods use.
var scopes = []string{"operator.read", "operator.write", "operator.approvals"}

// peer is a client of protocol 4.
type peer struct {
	*conn
	placed bool // it has a place among the admitted clients
	tools  bool // it wants events of tools
	subs   subscriptions
	asks   approvals
	runs   runs

	changes changes
}

// converse serves protocol 4.
func (c *conn) converse(ctx context.Context, r *http.Request) {
	c.ws.SetReadLimit(maxPreauth)
	p := &peer{conn: c}
	p.subs.init(p)
	defer p.subs.close()
	silent := c.b.places.Wait(func() { c.cancel(errSilent); c.end() })
	defer c.b.places.Spoken(silent)
	if err := c.event("connect.challenge", map[string]any{"nonce": rand.Text(), "ts": time.Now().UnixMilli()},
		nil); err != nil {
		return
	}
	hello, cancel := context.WithTimeout(ctx, c.b.o.ConnectTimeout)
	ok := p.connect(hello, r)
	cancel()
	if p.placed {
		defer c.b.places.Release("")
	}
	if !ok {
		return
	}
	c.b.places.Spoken(silent)
	c.ws.SetReadLimit(maxFrame)
	c.parts.Go(func() { p.tick(ctx) })
	p.serve(ctx)
}

// serve calls the methods that the client requests, until the connection ends. Requests that change something in a
// session come one after another, in the order of their frames; the others do not wait for any.
func (p *peer) serve(ctx context.Context) {
	var ordered queues
	requests, waits := make(chan struct{}, maxRequests), make(chan struct{}, maxWaits)
	for {
		req, err := p.read(ctx)
		if err != nil {
			p.cancel(err)
			return
		}
		if err := req.hold.Decoded("a request", req.Params); err != nil {
			p.answer(req.ID, nil, err)
			req.hold.Release()
			continue
		}
		places := requests
		if req.Method == "agent.wait" { // it may take minutes, so it takes no place of the other requests
			if places = waits; len(waits) == maxWaits {
				p.answer(req.ID, nil, errWaits)
				req.hold.Release()
				continue
			}
		}
		places <- struct{}{} // backpressure on a client that sends faster than it is answered
		call := func() {
			defer func() { <-places }()
			defer req.hold.Release()
			payload, err := p.call(ctx, req)
			p.answer(req.ID, payload, err)
			req.hold.Release() // what comes after the answer does not need the frame
			req.view.Release()
			if req.then != nil {
				req.then()
			}
		}
		if name, ok := queueOf(req); ok {
			ordered.add(&p.parts, name, call)
		} else {
			p.parts.Go(call)
		}
	}
}

// connect processes the client's first request and answers with hello-ok or an error.
func (p *peer) connect(ctx context.Context, r *http.Request) bool {
	req, err := p.read(ctx)
	if err != nil {
		return false
	}
	defer req.hold.Release()
	var params connectParams
	refuse := func(code, message string) bool {
		_ = p.send(response{Type: "res", ID: req.ID, Error: &errorShape{Code: code, Message: message,
			Retryable: code == "UNAVAILABLE"}})
		return false
	}
	switch err := req.decode(&params); {
	case req.Method != "connect":
		return refuse("INVALID_REQUEST", "the first request is connect")
	case err != nil:
		return refuse("INVALID_REQUEST", err.Error())
	case params.MinProtocol > protocol || params.MaxProtocol < protocol:
		return refuse("INVALID_REQUEST", "the gateway speaks protocol 4")
	case !p.b.o.Allowed(r, params.Auth.Token) && !p.b.o.Allowed(r, params.Auth.Password):
		return refuse("UNAUTHORIZED", "the runner's token is missing or wrong")
	}
	if p.placed = p.b.places.Take(""); !p.placed {
		return refuse("UNAVAILABLE", "too many connections")
	}
	granted := slices.DeleteFunc(slices.Clone(scopes), func(s string) bool {
		return len(params.Scopes) > 0 && !slices.Contains(params.Scopes, s) &&
			!slices.Contains(params.Scopes, "operator.admin")
	})
	p.tools = slices.Contains(params.Caps, "tool-events")
	role := params.Role
	if role == "" {
		role = "operator"
	}
	return p.send(response{Type: "res", ID: req.ID, OK: true, Payload: map[string]any{
		"type": "hello-ok", "protocol": protocol,
		"server":   map[string]any{"version": p.b.o.Version, "connId": p.name},
		"features": map[string]any{"methods": methodNames(), "events": eventNames},
		"snapshot": map[string]any{"presence": []any{}, "health": map[string]any{},
			"stateVersion": map[string]any{"presence": 1, "health": 1}, "uptimeMs": time.Since(p.b.started).Milliseconds()},
		"auth": map[string]any{"role": role, "scopes": granted},
		"policy": map[string]any{"maxPayload": maxFrame, "maxBufferedBytes": maxFrame,
			"tickIntervalMs": p.b.o.TickInterval.Milliseconds()},
	}}) == nil
}

// eventNames are the events that the server may send.
var eventNames = []string{"connect.challenge", "tick", "shutdown", "chat", "agent", "sessions.changed",
	"exec.approval.requested", "exec.approval.resolved"}

// tick sends heartbeats.
func (p *peer) tick(ctx context.Context) {
	tick := time.NewTicker(p.b.o.TickInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			if p.event("tick", map[string]any{"ts": time.Now().UnixMilli()}, nil) != nil {
				return
			}
		}
	}
}

// answer answers the request with the id.
func (p *peer) answer(id string, payload any, err error) {
	res := response{Type: "res", ID: id, OK: err == nil, Payload: payload}
	if err != nil {
		status, code := bridge.Status(err)
		var rejected *client.RejectedError
		res.Payload, res.Error = nil, &errorShape{Code: "UNAVAILABLE", Message: err.Error(), Retryable: status >= 500}
		if status < http.StatusInternalServerError || errors.As(err, &rejected) {
			res.Error.Code = "INVALID_REQUEST"
		}
		res.Error.Details = map[string]any{"code": strings.ToLower(code)}
	}
	if sent := p.send(res); errors.Is(sent, bridge.ErrFull) { // a client that has disconnected needs no answer
		p.answer(id, nil, sent)
	}
}
