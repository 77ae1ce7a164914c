package mcp_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/tools/mcp"
)

// busy is what a server that does one thing at a time does in a call: it dies, hangs, or works until the test has seen
// enough.
func busy(call string) {
	dir := os.Getenv(serverEnv)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	switch {
	case strings.Contains(call, "die"):
		leaveOrphan(dir, strings.Contains(call, "elsewhere"))
		os.Exit(1)
	case strings.Contains(call, "hang"):
		trace(dir, "hanging")
		time.Sleep(time.Hour)
	case strings.Contains(call, "work"):
		trace(dir, "working")
		for !exists(dir + "/enough") {
			<-tick.C
		}
	}
}

// leaveOrphan starts a process that keeps the server's input and output open, in its process group or elsewhere.
func leaveOrphan(dir string, elsewhere bool) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), hostileEnv+"=orphan")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if elsewhere {
		leaveGroup(cmd)
	}
	if cmd.Start() != nil {
		os.Exit(2)
	}
	for !exists(dir + "/orphan") {
		time.Sleep(time.Millisecond)
	}
}

// orphan can be reached at the address that it leaves, until it is killed or the test is over.
func orphan(dir string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return
	}
	_ = os.WriteFile(dir+"/written", []byte(l.Addr().String()), 0o600)
	_ = os.Rename(dir+"/written", dir+"/orphan")
	for exists(dir) {
		time.Sleep(20 * time.Millisecond)
	}
}

// A saying is what a call in the background will say.
type saying chan string

func (r *rig) begin(ctx context.Context, args string) saying {
	said := make(saying, 1)
	tool := r.tool("zoo_echo")
	go func() {
		result, _ := tool.Run(ctx, callOf(args), nil)
		said <- result.Content.JoinText()
	}()
	return said
}

// soon waits for what it says, far longer than it takes.
func (s saying) soon(t *testing.T) string {
	t.Helper()
	select {
	case text := <-s:
		return text
	case <-time.After(30 * time.Second):
		t.Fatal("the call does not come back")
		return ""
	}
}

func (s saying) wantLost(t *testing.T) {
	t.Helper()
	const lost = "The outcome of this call is unknown: the connection to the MCP server"
	if text := s.soon(t); !strings.HasPrefix(text, lost) {
		t.Errorf("%q", text)
	}
}

// back waits until calls are answered again. Those that are not meanwhile were not made, or were under way.
func (r *rig) back() {
	r.t.Helper()
	r.eventually("the server is back", func() bool {
		text := r.begin(r.t.Context(), "{}").soon(r.t)
		if text != "ok" && !strings.Contains(text, "the call was not made") && !strings.Contains(text, "was lost") {
			r.t.Fatalf("meanwhile: %q", text)
		}
		return text == "ok"
	})
}

// pinged makes keepalive short, but leaves a server half a second on a machine that is busy.
func pinged(o *mcp.BridgeOptions) { o.KeepAlive = time.Second }

// The end of a process is noticed although another one keeps its input and output open. What it has started is killed,
// but for what has left its group.
func TestAServerThatDiesInACall(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"here", "elsewhere"} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			r := bad(t, "busy")
			r.begin(t.Context(), `{"do":"die `+where+`"}`).wantLost(t)
			r.back()
			address, err := os.ReadFile(filepath.Join(r.dir, "orphan"))
			if err != nil {
				t.Fatal(err)
			}
			lives := func() bool {
				conn, err := net.Dial("tcp", string(address))
				if err == nil {
					_ = conn.Close()
				}
				return err == nil
			}
			if where == "here" {
				r.eventually("the orphan is killed", func() bool { return !lives() })
			} else if !lives() {
				t.Error("the orphan held nothing open: it has ended")
			}
		})
	}
}

// hanging is a server that hangs in one call, and answers nothing meanwhile; over HTTP until it is connected to anew.
func hanging(t *testing.T, test func(t *testing.T, start func(...func(*mcp.BridgeOptions)) *rig)) {
	t.Run("process", func(t *testing.T) {
		t.Parallel()
		test(t, func(change ...func(*mcp.BridgeOptions)) *rig { return bad(t, "busy", change...) })
	})
	t.Run("HTTP", func(t *testing.T) {
		t.Parallel()
		test(t, func(change ...func(*mcp.BridgeOptions)) *rig {
			dir := t.TempDir()
			var hangs atomic.Bool
			return start(t, dir, badOverHTTP(t, func(_ http.ResponseWriter, r *http.Request, method string,
				_ json.RawMessage) bool {
				switch {
				case method == "server/discover": // how a client begins
					hangs.Store(false)
				case method == "tools/call" && !exists(dir+"/hanging"):
					hangs.Store(true)
					trace(dir, "hanging")
				}
				if hangs.Load() {
					<-r.Context().Done()
				}
				return hangs.Load()
			}), true, change...)
		})
	})
}

// A server that hangs is given up after three pings, with all calls that it was sent, and then there is a new one.
func TestAServerThatHangsInACall(t *testing.T) {
	t.Parallel()
	hanging(t, func(t *testing.T, start func(...func(*mcp.BridgeOptions)) *rig) {
		r := start(pinged)
		first := r.begin(t.Context(), `{"do":"hang"}`)
		r.traced("hanging")
		other := r.begin(t.Context(), `{}`)
		first.wantLost(t)
		other.wantLost(t)
		r.back()
		if !strings.Contains(r.log.String(), "it does not answer") {
			t.Errorf("log:\n%s", r.log)
		}
	})
}

// A server with a call in flight that hangs does not keep the worker from stopping.
func TestAStopWhileACallHangs(t *testing.T) {
	t.Parallel()
	hanging(t, func(t *testing.T, start func(...func(*mcp.BridgeOptions)) *rig) {
		r := start()
		call := r.begin(t.Context(), `{"do":"hang"}`)
		r.traced("hanging")
		stopped := make(saying, 1)
		go func() { r.stop(); stopped <- "" }()
		stopped.soon(t)
		call.wantLost(t)
	})
}

// A server that does one thing at a time is not given up while it works on a call with a time limit: not before one
// that works on a call without.
func TestALongCallIsNoHang(t *testing.T) {
	t.Parallel()
	limited, other := bad(t, "busy", pinged), bad(t, "busy", pinged)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	call := limited.begin(ctx, `{"do":"work"}`)
	limited.traced("working")
	other.begin(t.Context(), `{"do":"work"}`).wantLost(t)
	trace(limited.dir, "enough")
	if text := call.soon(t); text != "ok" {
		t.Errorf("%q", text)
	}
	if strings.Contains(limited.log.String(), "MCP server lost") {
		t.Errorf("log:\n%s", limited.log)
	}
}

// A server that answers is kept, also if it knows no ping. One that does not is given up in the meantime.
func TestAServerThatAnswersIsKept(t *testing.T) {
	t.Parallel()
	dir, c := process(t)
	overHTTP, home, _ := overHTTP(t)
	kept := []*rig{bad(t, "busy", pinged), start(t, dir, c, true, pinged), start(t, overHTTP, home, true, pinged),
		start(t, t.TempDir(), badOverHTTP(t, func(http.ResponseWriter, *http.Request, string, json.RawMessage) bool {
			return false
		}), true, pinged)}
	bad(t, "busy", pinged).begin(t.Context(), `{"do":"hang"}`).wantLost(t)
	for i, r := range kept {
		if text := r.begin(t.Context(), "{}").soon(t); text == "" || strings.Contains(r.log.String(), "MCP server lost") {
			t.Errorf("server %d: %q, log:\n%s", i, text, r.log)
		}
	}
}
