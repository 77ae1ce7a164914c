package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/tools"
	"github.com/loopbus/loopbus/tools/mcp"
)

// What servers say without a pause: far more than what is on its way between two processes.
var (
	floodOfProgress = flood{64, `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"1",` +
		`"progress":1,"message":"` + strings.Repeat("x", 1<<20) + `"}}`}
	floodOfRequests = flood{1 << 14, `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 64) + `%d","method":"ping"}`}
)

type flood struct {
	times   int
	message string
}

// say says it until all is said. It leaves a trace of that, and of a write that nobody seems to read.
func (f flood) say(dir, format string, out io.Writer) {
	slow := time.AfterFunc(time.Hour, func() { trace(dir, "waiting") })
	defer slow.Stop()
	for i := range f.times {
		slow.Reset(500 * time.Millisecond)
		if _, err := fmt.Fprintf(out, format, strings.Replace(f.message, "%d", fmt.Sprint(i), 1)); err != nil {
			return
		}
	}
	trace(dir, "said all")
}

// flooding is called by a server of standard input and output that misbehaves.
func flooding(how string) {
	f := floodOfProgress
	if how == "asks" {
		f = floodOfRequests
	}
	f.say(os.Getenv(serverEnv), "%s\n", os.Stdout)
}

// waits waits until a server has said all, which is an error, or waits for what it says to be read.
func (r *rig) waits() {
	r.t.Helper()
	has := func(name string) bool { return exists(filepath.Join(r.dir, name)) }
	r.eventually("the server waits", func() bool { return has("waiting") || has("said all") })
	if has("said all") {
		r.t.Error("everything it says is kept")
	}
}

// A server that says more than is taken waits: what it says is not kept.
func TestProgressThatIsNotTakenIsNotRead(t *testing.T) {
	suite.LongForm(t)
	t.Parallel()
	for name, begin := range map[string]func(t *testing.T) *rig{
		"process": func(t *testing.T) *rig { t.Helper(); return bad(t, "flood") },
		"HTTP": func(t *testing.T) *rig {
			t.Helper()
			dir := t.TempDir()
			return start(t, dir, badOverHTTP(t, func(w http.ResponseWriter, _ *http.Request, method string,
				_ json.RawMessage) bool {
				if method != "tools/call" {
					return false
				}
				w.Header().Set("Content-Type", "text/event-stream")
				floodOfProgress.say(dir, "data: %s\n\n", w)
				return true
			}), true)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := begin(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var once sync.Once
			r.tool("zoo_echo").Run(ctx, tools.Call{}, func(schemas.ToolResult) { once.Do(func() { r.waits(); cancel() }) })
		})
	}
}

// A process that asks and asks, and reads no answer, waits as well.
func TestRequestsWithoutAnswersAreNotRead(t *testing.T) {
	t.Parallel()
	bad(t, "asks", func(o *mcp.BridgeOptions) { o.WriteTimeout = 2 * time.Second }).waits()
}
