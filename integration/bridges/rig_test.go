package bridges_test

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/bridge/agui"
	"github.com/loopbus/loopbus/bus/bridge/gateway"
	"github.com/loopbus/loopbus/bus/bridge/sse"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/bus/natsws"
	"github.com/loopbus/loopbus/bus/queries"
	"github.com/loopbus/loopbus/bus/service"
	"github.com/loopbus/loopbus/cmd/wiring"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/host"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
)

// script maps prompts to replies of the model.
const script = `{"chunkSize": 4, "chunkDelayMs": 5, "scripts": [
	{"match": "^hello", "responses": [{"thinking": "they greet", "text": "hello to you"}]},
	{"match": "^slow", "responses": [{"events": [{"type":"start"},{"type":"text_start"},
		{"type":"text_delta","delta":"begun "},{"delayMs":700},{"type":"text_delta","delta":"and done"},
		{"type":"text_end","content":"begun and done"},{"type":"done"}],
		"message": {"content":[{"type":"text","text":"begun and done"}],"stopReason":"stop"}}]},
	{"match": "^hang", "responses": [{"events": [{"type":"start"},{"type":"text_start"},
		{"type":"text_delta","delta":"begun "},{"delayMs":600000},{"type":"done"}],
		"message": {"content":[{"type":"text","text":"begun "}],"stopReason":"stop"}}]},
	{"match": "^tool", "responses": [
		{"text": "I look", "toolCalls": [{"name":"steps","arguments":{"n":2}},{"name":"echo","arguments":{"v":"x"}}]},
		{"text": "it is done"}]},
	{"match": "^danger", "responses": [{"toolCalls": [{"name":"danger","arguments":{"v":"y"}}]}, {"text": "it is over"}]},
	{"match": "^flaky", "responses": [{"fail": ["529 overloaded"], "text": "at last"}]},
	{"match": "^frontend", "responses": [{"toolCalls": [{"name":"pick_colour","arguments":{"of":"walls"}}]},
		{"text": "a fine colour"}]},
	{"match": "^both", "responses": [
		{"toolCalls": [{"name":"pick_colour","arguments":{}},{"name":"danger","arguments":{"v":"y"}}]},
		{"text": "it is both"}]},
	{"match": "^fail", "responses": []}
]}`

// bigCall has arguments that are stored outside the log.
var bigCall = `{"match": "^big", "responses": [{"events": [{"type":"start"},{"type":"done"}], "message": {"content":[` +
	`{"type":"toolCall","id":"t1","name":"danger","arguments":{"v":"` + strings.Repeat("x", 300<<10) + `"}}],` +
	`"stopReason":"toolUse"}}]},`

// rig is a runner with a model that plays the script, tools, of which danger requires approval, and a server of
// bridges.
type rig struct {
	*system.System
	t      *testing.T
	client *client.Client
	url    string
	mux    *http.ServeMux
	views  *bridge.Budget

	stopChat func()
}

// views is how many bytes the bridges have of the sessions that they show.
const views = 4 << 20

const chatToken = "a-token-of-the-chat"

func newRig(t *testing.T, settings ...func(*host.Options)) *rig {
	t.Helper()
	more := longReply("^long", 400, 1<<10) + longReply("^in bits", 1280, 16) + bigCall
	model, err := scripted.Parse([]byte(strings.Replace(script, `"scripts": [`, `"scripts": [`+more, 1)))
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, mux: http.NewServeMux(), views: bridge.NewViews(views)}
	r.System = system.StartAlone(t, system.Options{Model: model, UpdateInterval: -1, AbortGrace: time.Second,
		Tools: []tools.Tool{echoAs("danger"), steps}, Host: func(o *host.Options) {
			o.Defaults.Approval = schemas.ApprovalPolicy{Tools: []string{"danger"}}
			o.Defaults.Retry = schemas.RetryPolicy{MaxRetries: 1, BaseDelayMs: 1}
			for _, set := range settings {
				set(o)
			}
		}})
	system.Serve(t, func(ctx context.Context) error {
		return service.Run(ctx, r.Conn.NATS(), service.Options{Name: "loopbus-runner", Version: "0.1.0",
			Busy: queries.Busy()}, r.Queries(wiring.Catalogue{})...)
	})
	if r.client, err = client.Connect(r.URL, client.Options{Name: "bridge"}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.client.Close)
	r.mux.Handle(sse.Pattern, sse.New(r.client, r.views))
	ui := agui.New(r.client, agui.Options{Load: r.State, Views: r.views})
	t.Cleanup(ui.Close)
	r.mux.Handle(agui.Pattern, ui)
	r.mux.HandleFunc(agui.AbortPattern, ui.Abort)
	chat := gateway.New(r.client, gateway.Options{Load: r.State, Views: r.views, TickInterval: time.Second,
		ConnectTimeout: time.Minute,
		Allowed: func(request *http.Request, token string) bool {
			return token == chatToken || request.Header.Get("Authorization") == "Bearer "+chatToken
		}})
	r.mux.Handle(gateway.Pattern, chat)
	socket := natsws.New(natsws.Options{Upstream: natsws.Upstream{URL: r.URL}})
	r.mux.Handle("/nats", socket)
	t.Cleanup(socket.Close)
	s := httptest.NewServer(r.mux)
	r.stopChat = chat.Close
	t.Cleanup(func() { chat.Close(); s.CloseClientConnections(); s.Close(); http.DefaultClient.CloseIdleConnections() })
	r.url = s.URL
	return r
}

func echoAs(name string) tools.Tool {
	t := system.Echo
	t.ToolDefinition.Name = name
	return t
}

// steps is a tool that sends partial results.
var steps = tools.Tool{
	ToolDefinition: schemas.ToolDefinition{Name: "steps", Parameters: json.RawMessage(`{"type":"object"}`)},
	Execute: func(_ context.Context, call tools.Call) (schemas.ToolResult, error) {
		call.Update(schemas.TextResult("half"))
		return schemas.TextResult("all"), nil
	},
}

// get opens a stream, which is closed when the test ends.
func (r *rig) get(path string, headers ...string) *http.Response {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cancel(); _ = response.Body.Close() })
	return response
}
