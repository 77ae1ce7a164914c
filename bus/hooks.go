package bus

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/loopbus/loopbus/bus/natsio"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/turns"
)

// Hooks sends requests to hook services at agent.hook.<hook>[.<service>] (docs/hooks.md). Its methods may be called
// concurrently.
type Hooks struct {
	conn *Conn
	room *turns.Turns[string] // for the answers of each service

	mu       sync.Mutex
	largest  map[string]int       // bytes of an answer of each service
	services map[string]*LazyConn // for the answers of each
}

// NewHooks returns Hooks on c. The caller keeps ownership of c, which must outlive the Hooks.
func NewHooks(c *Conn) *Hooks {
	return &Hooks{conn: c, room: turns.New[string](maxAnswers), largest: map[string]int{},
		services: map[string]*LazyConn{}}
}

const (
	// maxAnswers is how many bytes of answers of one service may arrive at once. The server closes a connection for
	// which 64 MiB wait.
	maxAnswers = 32 << 20
	// usualAnswer is what a service is expected to answer that has not answered more.
	usualAnswer = 128 << 10
	maxServices = 4096 // whose largest answers are remembered
	// maxConnections is how many services have a connection of their own. Further ones share one.
	maxConnections = 128
)

// Ask sends one request and waits for the answer, for [schemas.HookRef.Timeout] of to at most. Before that it waits
// until few enough requests to the service are under way: 256, or fewer if its answers are large. It returns an error
// if no service listens, if no answer arrives in time, if the answer cannot be decoded, if the request is too large for
// a message, or if the service answers with an error.
func (h *Hooks) Ask(ctx context.Context, to schemas.HookRef, req schemas.HookRequest) (schemas.HookAnswer, error) {
	answer, err := h.ask(ctx, to, req)
	if err != nil {
		return schemas.HookAnswer{}, fmt.Errorf("hook %s: %w", h.conn.subjects.Hook(to), err)
	}
	return answer, nil
}

func (h *Hooks) ask(ctx context.Context, to schemas.HookRef, req schemas.HookRequest) (a schemas.HookAnswer,
	err error) {
	room := h.conn.nc.MaxPayload() - natsio.HeaderRoom
	if n := sizeOf(req); int64(n) > hopeless*room { // not encoded, as that takes several times as much memory
		return a, fmt.Errorf("the request has some %d bytes, and a message takes %d", n, room)
	}
	data, err := schemas.Marshal(req)
	if err != nil {
		return a, err
	}
	if int64(len(data)) > room {
		return a, fmt.Errorf("the request has %d bytes, and a message takes %d", len(data), room)
	}
	subject := h.conn.subjects.Hook(to)
	answered, err := h.wait(ctx, subject)
	if err != nil {
		return a, err
	}
	defer answered()
	limit, cancel := context.WithTimeoutCause(ctx, to.Timeout(), errNoAnswer)
	defer cancel()
	reply, err := h.request(limit, subject, data)
	if reply != nil {
		h.arrived(subject, len(reply.Data))
	}
	switch {
	case errors.Is(context.Cause(limit), errNoAnswer):
		return a, fmt.Errorf("no answer within %s", to.Timeout().Round(time.Millisecond))
	case errors.Is(err, nats.ErrNoResponders):
		return a, errors.New("no service listens")
	case err != nil:
		return a, err
	case reply.Header.Get(micro.ErrorHeader) != "":
		return a, fmt.Errorf("the service answered with an error: %.512s", reply.Header.Get(micro.ErrorHeader))
	}
	return schemas.ParseHookAnswer(reply.Data)
}

// request sends a request to a service. The answers of each service come by a connection of their own, as the server
// ends one for which too much waits: that must cost nobody else's answers, nor the runner's other messages.
func (h *Hooks) request(ctx context.Context, subject string, data []byte) (*nats.Msg, error) {
	nc, err := h.service(subject).Open(ctx)
	if err != nil {
		return nil, err
	}
	return natsio.Request(ctx, nc, subject, data)
}

func (h *Hooks) service(subject string) *LazyConn {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.services[subject] == nil && len(h.services) >= maxConnections {
		subject = ""
	}
	c := h.services[subject]
	if c == nil {
		c = h.conn.Lazy("hooks/" + subject)
		h.services[subject] = c
	}
	return c
}

// wait waits for room for the next answer of a service.
func (h *Hooks) wait(ctx context.Context, subject string) (release func(), err error) {
	for {
		n := h.expected(subject)
		if release, err = h.room.Wait(ctx, subject, n); err != nil || h.expected(subject) <= n {
			return release, err
		}
		release() // its answers have become larger meanwhile
	}
}

// expected returns how many bytes the next answer of a service may have.
func (h *Hooks) expected(subject string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(usualAnswer, h.largest[subject])
}

func (h *Hooks) arrived(subject string, bytes int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if bytes <= max(usualAnswer, h.largest[subject]) {
		return
	}
	if len(h.largest) >= maxServices {
		clear(h.largest)
	}
	h.largest[subject] = bytes
}

// sizeOf estimates the size of a request by what may be large in it.
func sizeOf(req schemas.HookRequest) int {
	n := req.Messages.Size() + len(req.Payload) + len(req.Args)
	if req.Message != nil {
		n += schemas.Messages{req.Message.Message}.Size()
	}
	if r := req.Result; r != nil {
		n += schemas.Messages{&schemas.ToolResultMessage{Content: r.Content, Details: r.Details}}.Size()
	}
	return n
}

// hopeless is how many messages of the bus a request has that is too large whatever the estimate of its size adds.
const hopeless = 4

var errNoAnswer = errors.New("no answer in time")
