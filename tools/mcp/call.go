package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// idempotencyMeta is the member of a call's _meta that is the same for all attempts at one call.
const idempotencyMeta = "loopbus.dev/idempotencyKey"

// execute returns the function that executes calls of a tool; name is the server's name of it.
func (b *Bridge) execute(name string) func(context.Context, tools.Call) (schemas.ToolResult, error) {
	return func(ctx context.Context, call tools.Call) (schemas.ToolResult, error) {
		result, err := b.call(ctx, name, call)
		if ctx.Err() != nil {
			return schemas.ToolResult{}, tools.Interrupted(ctx)
		}
		return result, b.secret.err(err)
	}
}

// call sends a call to the server once. When ctx ends the SDK notifies the server that the call is cancelled.
func (b *Bridge) call(ctx context.Context, name string, call tools.Call) (schemas.ToolResult, error) {
	s, trouble := b.live()
	if s == nil {
		return schemas.ToolResult{}, b.notMade(trouble)
	}
	if call.Revision != "" && call.Revision != b.revision(name) {
		return schemas.ToolResult{}, tools.Failf("The MCP server %s has changed or removed this tool since the run began. "+
			"The call was not made; the next run has the tool as it is now", b.o.Server.Name)
	}
	params := &sdk.CallToolParams{Name: name, Arguments: arguments(call)}
	if call.IdempotencyKey != "" {
		params.Meta = sdk.Meta{idempotencyMeta: call.IdempotencyKey}
	}
	token := strconv.FormatUint(b.calls.Add(1), 10)
	params.SetProgressToken(token)
	defer b.progress.expect(token, call.Update)()
	defer s.pulse.begin(ctx, token)()
	sending, sent := withSent(ctx)
	result, err := s.CallTool(sending, params)
	refused := refusal(err)
	if err == nil || refused != nil {
		s.pulse.heard()
	}
	switch {
	case err == nil:
		return b.resultOf(ctx, result)
	case ctx.Err() != nil:
		return schemas.ToolResult{}, ctx.Err()
	case refused != nil:
		return schemas.ToolResult{}, tools.Failf("The MCP server %s refused the call: %s", b.o.Server.Name, refused.Message)
	}
	s.lost(errBroken)
	if !sent.Load() {
		return schemas.ToolResult{}, b.notMade(err)
	}
	return schemas.ToolResult{}, tools.Failf("The outcome of this call is unknown: the connection to the MCP server "+
		"%s was lost (%v)",
		b.o.Server.Name, err)
}

// notMade returns the error of a call that the server has not received.
func (b *Bridge) notMade(why error) error {
	return tools.Failf("The MCP server %s is not there: %v. It is being started again; the call was not made",
		b.o.Server.Name, why)
}

// refusal returns the error that a server has answered a request with, nil if err is something else.
func refusal(err error) *jsonrpc.Error {
	refused, _ := errors.Unwrap(err).(*jsonrpc.Error) //nolint:errorlint // deeper ones are the SDK's own
	return refused
}

type sentKey struct{}

// withSent returns a context to send a message with, and whether a connection has begun to send it.
func withSent(ctx context.Context) (context.Context, *atomic.Bool) {
	sent := new(atomic.Bool)
	return context.WithValue(ctx, sentKey{}, sent), sent
}

// setSent notes that the message of ctx is about to be sent.
func setSent(ctx context.Context) {
	if sent, ok := ctx.Value(sentKey{}).(*atomic.Bool); ok {
		sent.Store(true)
	}
}

// revision returns the revision of a tool in the server's latest list, "" if the list has no tool of that name.
func (b *Bridge) revision(name string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.revisions[name]
}

// arguments returns the arguments as raw JSON, so that a number keeps its digits.
func arguments(call tools.Call) any {
	if len(call.Arguments) == 0 {
		return struct{}{}
	}
	return call.Arguments
}

// progress passes progress notifications to their calls. The zero value is ready for use. It is safe for concurrent
// use.
type progress struct {
	mu    sync.Mutex
	calls map[string]func(schemas.ToolResult)
}

// expect makes tell call update with the progress of a call until end is called.
func (p *progress) expect(token string, update func(schemas.ToolResult)) (end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.calls == nil {
		p.calls = map[string]func(schemas.ToolResult){}
	}
	p.calls[token] = update
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.calls, token)
	}
}

// progressDetails are the details of an update: the progress of a call, which has the members of a notification.
type progressDetails struct {
	Progress float64 `json:"progress"`
	Total    float64 `json:"total,omitempty"`
	Message  string  `json:"message,omitempty"`
}

// tell converts the parameters of a notification to an update. It drops a notification that no call expects.
func (p *progress) tell(params json.RawMessage) {
	var n struct {
		ProgressToken string `json:"progressToken"` // the bridge's tokens are strings
		progressDetails
	}
	if json.Unmarshal(params, &n) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	update := p.calls[n.ProgressToken]
	if update == nil {
		return
	}
	details, err := json.Marshal(n.progressDetails)
	if err != nil { // not possible: JSON has no NaN or infinity
		return
	}
	update(schemas.ToolResult{Content: schemas.Contents{text(n.describe())}, Details: details})
}

func (n progressDetails) describe() string {
	amount := strconv.FormatFloat(n.Progress, 'g', -1, 64)
	if n.Total > 0 {
		amount += " of " + strconv.FormatFloat(n.Total, 'g', -1, 64)
	}
	return strings.TrimSpace(n.Message + " (" + amount + ")")
}
