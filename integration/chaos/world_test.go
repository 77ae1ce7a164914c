//go:build unix

package chaos_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest/ports"
	"github.com/loopbus/loopbus/bus/registry"
	"github.com/loopbus/loopbus/bus/streams"
	"github.com/loopbus/loopbus/eventstore"
	"github.com/loopbus/loopbus/integration/chaos/internal/program"
	"github.com/loopbus/loopbus/integration/chaos/internal/proxy"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/schemas"
)

// size is the number of processes of each role.
type size map[program.Role]int

// partitions of the inbox. Each is a Raft group of three replicas, so there are no more than the runners need.
const partitions = 12

const (
	leaderTimeout = 500 * time.Millisecond // of one request whether the cluster has a leader
	setupTimeout  = 15 * time.Second       // of one try to create the streams
)

// world is a NATS cluster with runners, toolworkers and clients. Its own connection reaches the servers without a
// proxy.
type world struct {
	t       *testing.T
	dir     string // of all files
	work    string // working directory of the tools
	bin     string // directory of the project's commands
	script  string // of the slow model
	ports   []int  // of the servers
	slots   map[program.Role][]*slot
	clients []*client
	conn    *bus.Conn
	store   *eventstore.Store
}

// newWorld starts all processes and waits until they are ready.
func newWorld(t *testing.T, n size, script string) *world {
	t.Helper()
	bin, err := build()
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, dir: t.TempDir(), bin: bin, slots: map[program.Role][]*slot{}}
	w.work = filepath.Join(w.dir, "work")
	w.script = filepath.Join(w.dir, "script.json")
	w.must(os.MkdirAll(filepath.Join(w.work, "tmp"), 0o700))
	w.must(os.WriteFile(w.script, []byte(script), 0o600))
	t.Cleanup(w.close)
	w.startServers(n[program.Server])
	w.connect()
	w.startAll(program.Runner, n, w.runner)
	w.startAll(program.Worker, n, w.worker)
	w.startAll(program.Counter, n, w.counter)
	for range n[program.Client] {
		w.clients = append(w.clients, w.newClient())
	}
	w.awaitReady(n)
	return w
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// close stops all clients and processes. The output of processes stays in the artifact directory of the test.
func (w *world) close() {
	for _, c := range w.clients {
		c.close()
	}
	if w.conn != nil {
		w.conn.Close()
	}
	for _, role := range program.Roles() {
		for _, s := range w.slots[role] {
			s.close()
		}
	}
}

func (w *world) startServers(n int) {
	w.t.Helper()
	free, err := ports.Free(2 * n)
	w.must(err)
	w.ports = free[:n]
	for i := range n {
		c := serverConfig{Name: fmt.Sprintf("n%d", i+1), Port: free[i], RoutePort: free[n+i], Routes: free[n:],
			StoreDir: filepath.Join(w.dir, fmt.Sprintf("store%d", i+1))}
		w.start(program.Target{Role: program.Server, Number: i}, nil, func(int) process.Command {
			return w.self(c.Name, roleServer, c)
		})
	}
}

// startAll starts all processes of a role, each with its own proxies.
func (w *world) startAll(role program.Role, n size, command func(name, url string) process.Command) {
	w.t.Helper()
	for i := range n[role] {
		links := w.links()
		w.start(program.Target{Role: role, Number: i}, links, func(generation int) process.Command {
			return command(fmt.Sprintf("%c%d-%d", role[0], i+1, generation), urlOf(links))
		})
	}
}

func (w *world) start(target program.Target, links []*proxy.Proxy, command func(int) process.Command) {
	w.t.Helper()
	s := &slot{target: target, command: command, links: links, closing: make(chan struct{})}
	w.slots[target.Role] = append(w.slots[target.Role], s)
	w.must(s.up())
}

// links returns proxies, one to each server.
func (w *world) links() (links []*proxy.Proxy) {
	w.t.Helper()
	for _, port := range w.ports {
		p, err := proxy.New(fmt.Sprintf("127.0.0.1:%d", port))
		w.must(err)
		links = append(links, p)
	}
	return links
}

// logs returns the directory with the output of this test's processes.
func (w *world) logs() string { return w.t.ArtifactDir() }

func (w *world) process(name, path string, env []string, args ...string) process.Command {
	return process.Command{
		Name: name, Path: path, Args: args, Dir: w.work, Log: filepath.Join(w.logs(), name+".log"),
		Env: append(env, "PATH="+os.Getenv("PATH"), "HOME="+w.work, "TMPDIR="+filepath.Join(w.work, "tmp"),
			"GORACE=atexit_sleep_ms=0 halt_on_error=1"),
	}
}

// self returns the command that runs the test binary in another role.
func (w *world) self(name, role string, config any) process.Command {
	raw, err := json.Marshal(config)
	w.must(err)
	return w.process(name, os.Args[0], []string{roleVariable + "=" + role, configVariable + "=" + string(raw)})
}

func (w *world) runner(name, url string) process.Command {
	return w.process(name, filepath.Join(w.bin, "runner"), nil, "--nats", url, "--id", name, "--http", "off",
		"--model", "scripted", "--script", w.script, "--partitions", fmt.Sprint(partitions),
		"--replicas", fmt.Sprint(replicas(w.ports)), "--abort-grace", "3s",
		"--extension-tools", schemas.ToolAgent)
}

func (w *world) worker(name, url string) process.Command {
	return w.process(name, filepath.Join(w.bin, "toolworker"), nil, "--nats", url, "--id", name,
		"--tools", "bash,read,ls", "--root", w.work, "--stop-timeout", "5s")
}

func (w *world) counter(name, url string) process.Command {
	return w.self(name, roleCounter, counterConfig{ID: name, URL: url, Count: w.countFile()})
}

// countFile returns the file to which counting tools append their executions.
func (w *world) countFile() string { return filepath.Join(w.dir, "calls.count") }

func replicas(servers []int) int { return min(len(servers), 3) }

// connect opens the world's own connection and creates the streams.
func (w *world) connect() {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(testContext(w.t), deadline)
	defer cancel()
	url := ""
	for _, port := range w.ports {
		url += fmt.Sprintf(",nats://127.0.0.1:%d", port)
	}
	var err error
	w.conn, err = bus.Connect(ctx, bus.ConnOptions{URL: url[1:], Name: "audit"})
	w.must(err)
	eventually(w.t, deadline, "the cluster has a leader", func() bool {
		once, cancel := context.WithTimeout(ctx, leaderTimeout) // a request without a leader is never answered
		defer cancel()
		_, err := w.conn.JetStream().AccountInfo(once)
		return err == nil
	})
	eventually(w.t, deadline, "the streams are created", func() bool {
		once, cancel := context.WithTimeout(ctx, setupTimeout)
		defer cancel()
		err = streams.Setup(once, w.conn, streams.Options{Partitions: partitions, Replicas: replicas(w.ports)})
		return err == nil
	})
	w.store, err = eventstore.New(w.conn.Events(), eventstore.Options{})
	w.must(err)
}

// awaitReady waits until every runner is a member and every tool is announced.
func (w *world) awaitReady(n size) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(testContext(w.t), deadline)
	defer cancel()
	eventually(w.t, deadline, "the runners are live", func() bool { return len(w.members(ctx)) == n[program.Runner] })
	toolbox := registry.NewToolbox(w.conn, nil)
	defer toolbox.Close()
	var tools []string
	if n[program.Worker] > 0 {
		tools = append(tools, "bash", "ls")
	}
	if n[program.Counter] > 0 {
		tools = append(tools, toolIdempotent, toolReadOnly)
	}
	w.must(toolbox.Wait(ctx, tools...))
}

// members returns the ids of the live runners.
func (w *world) members(ctx context.Context) []string {
	kv, err := w.conn.JetStream().KeyValue(ctx, schemas.BucketRunners)
	if err != nil {
		return nil
	}
	ids, err := kv.Keys(ctx)
	if err != nil {
		return nil
	}
	return ids
}
