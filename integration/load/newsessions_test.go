//go:build unix

package load_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/loopbus/loopbus/bus"
	"github.com/loopbus/loopbus/bus/bustest/ports"
	"github.com/loopbus/loopbus/integration/internal/process"
	"github.com/loopbus/loopbus/integration/internal/system"
	"github.com/loopbus/loopbus/loop/driver"
	"github.com/loopbus/loopbus/providers/scripted"
	"github.com/loopbus/loopbus/schemas"
)

const (
	turnsPerRun = 10
	atOnce      = 64 // concurrent sessions
)

// script is a model that calls echo in every turn of a run except the last.
func script() string {
	call := `{"toolCalls":[{"name":"` + system.Echo.Name + `","arguments":{"v":"x"}}]},`
	return `{"loop":true,"responses":[` + strings.Repeat(call, turnsPerRun) + `{"text":"done"}]}`
}

// BenchmarkNewSessions measures tool turns of 64 concurrent sessions, alternately in two forms. In one, a runner with
// its server, a toolworker and this client are three processes, and every run of ten turns has a new session. In the
// other, all of them are in this process, and 64 sessions have all runs. It also reports the memory of the runner's
// process.
func BenchmarkNewSessions(b *testing.B) {
	apart, together := startApart(b), startTogether(b)
	apart.run(b, "warm")
	together.run(b, "warm")
	runs := max(1, b.N/(turnsPerRun*atOnce*rounds))
	var three, one, runner, worker, client, oneSpent time.Duration
	b.ResetTimer()
	for round := range rounds {
		runner, worker, client = runner-spent(apart.runner), worker-spent(apart.worker), client-system.Spent()
		three += apart.all(b, runs, func(i, r int) string { return fmt.Sprintf("s%d-%d-%d", round, i, r) })
		runner, worker, client = runner+spent(apart.runner), worker+spent(apart.worker), client+system.Spent()
		spent := system.Spent()
		one += together.all(b, runs, func(i, _ int) string { return fmt.Sprintf("s%d", i) })
		oneSpent += system.Spent() - spent
	}
	b.StopTimer()
	turns := float64(rounds * runs * atOnce * turnsPerRun)
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64((runner+worker+client).Microseconds())/turns, "cpu-µs/turn")
	b.ReportMetric(float64(runner.Microseconds())/turns, "runner-cpu-µs/turn")
	b.ReportMetric(float64(worker.Microseconds())/turns, "worker-cpu-µs/turn")
	b.ReportMetric(float64(oneSpent.Microseconds())/turns, "one-process-cpu-µs/turn")
	b.ReportMetric(turns/three.Seconds(), "turns/s")
	b.ReportMetric(turns/one.Seconds(), "one-process-turns/s")
	b.ReportMetric(float64(one)/float64(three), "×one-process")
	now, peak := apart.memory(b)
	b.ReportMetric(now, "runner-MiB")
	b.ReportMetric(peak, "runner-peak-MiB")
}

// prompter sends prompts and learns from live events when their runs have ended.
type prompter struct {
	conn  *bus.Conn
	ended sync.Map // session -> chan struct{}
}

func newPrompter(b *testing.B, url string) *prompter {
	b.Helper()
	p := &prompter{conn: system.Connect(b, url, "client")}
	end := []byte(`"type":"` + schemas.CloudEventType(schemas.EventAgentEnd) + `"`)
	sub, err := p.conn.NATS().Subscribe(p.conn.Subjects().LiveEvent("*"), func(m *nats.Msg) {
		session, _, err := p.conn.Subjects().ParseLive(m.Subject)
		if c, ok := p.ended.Load(session); ok && err == nil && bytes.Contains(m.Data, end) {
			c.(chan struct{}) <- struct{}{}
		}
	})
	if err == nil {
		err = p.conn.NATS().Flush()
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = sub.Unsubscribe() })
	return p
}

// run sends a prompt and waits for the end of its run.
func (p *prompter) run(b *testing.B, session string) {
	c, _ := p.ended.LoadOrStore(session, make(chan struct{}, 1))
	_, err := p.conn.JetStream().Publish(b.Context(), p.conn.Subjects().Command(session, schemas.CommandPrompt),
		[]byte("go"))
	if err != nil {
		b.Error(err)
		return
	}
	select {
	case <-c.(chan struct{}):
	case <-time.After(system.Deadline):
		b.Errorf("session %s: the run did not end", session)
	}
}

// all completes runs in 64 concurrent sessions, one after the other in each, and returns how long that took.
func (p *prompter) all(b *testing.B, runs int, session func(i, run int) string) time.Duration {
	var wg sync.WaitGroup
	start := time.Now()
	for i := range atOnce {
		wg.Go(func() {
			for r := range runs {
				p.run(b, session(i, r))
			}
		})
	}
	wg.Wait()
	return time.Since(start)
}

// startTogether starts a runner with its server, a worker and a client in this process.
func startTogether(b *testing.B) *prompter {
	b.Helper()
	model, err := scripted.Parse([]byte(script()))
	if err != nil {
		b.Fatal(err)
	}
	url := system.StartServer(b, false).ClientURL()
	system.Start(b, url, system.Options{Model: driver.Model(model)})
	return newPrompter(b, url)
}

// apart has a runner with its server, a worker and a client, each in a separate process; the client is in this one.
type apart struct {
	*prompter
	runner, worker int // their process ids
}

func startApart(b *testing.B) *apart {
	b.Helper()
	dir := b.TempDir()
	if err := process.Build(dir, "cmd/runner"); err != nil {
		b.Fatal(err)
	}
	free, err := ports.Free(1)
	if err != nil {
		b.Fatal(err)
	}
	listen := fmt.Sprintf("127.0.0.1:%d", free[0])
	file := filepath.Join(dir, "script.json")
	if err := os.WriteFile(file, []byte(script()), 0o600); err != nil {
		b.Fatal(err)
	}
	runner := spawn(b, process.Command{
		Name: "runner", Path: filepath.Join(dir, "runner"), Dir: dir, Log: filepath.Join(dir, "runner.log"),
		Args: []string{"--id", "runner", "--listen", listen, "--store", filepath.Join(dir, "store"), "--model", "scripted",
			"--script", file, "--tools", "", "--http", ""},
		Env: []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + dir},
	})
	url := "nats://" + listen
	p := newPrompter(b, url) // waits for the server
	config, err := json.Marshal(workerConfig{ID: "worker", URL: url, Echo: true})
	if err != nil {
		b.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		b.Fatal(err)
	}
	worker := spawn(b, process.Command{Name: "worker", Path: self, Dir: dir, Log: filepath.Join(dir, "worker.log"),
		Env: append(os.Environ(), configVariable+"="+string(config))})
	system.Eventually(b, "the worker has announced its tool", func() bool {
		tools, err := p.conn.JetStream().KeyValue(b.Context(), schemas.BucketTools)
		if err != nil {
			return false
		}
		_, err = tools.Get(b.Context(), schemas.AnnouncementKey(system.Echo.Name, "worker"))
		return err == nil
	})
	return &apart{p, runner.PID(), worker.PID()}
}

// spawn starts a process that is stopped when the benchmark ends.
func spawn(b *testing.B, c process.Command) *process.Process {
	b.Helper()
	p, err := process.Start(c)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { end(b, p, c.Log) })
	return p
}

var memoryRE = regexp.MustCompile(`(?m)^(VmHWM|VmRSS):\s*(\d+) kB$`)

// memory returns the current and the maximum memory of the runner's process, in MiB; 0 if the system does not report
// it.
func (a *apart) memory(b *testing.B) (now, peak float64) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", a.runner))
	if err != nil {
		b.Log("memory is not known: ", err)
	}
	for _, m := range memoryRE.FindAllSubmatch(status, -1) {
		kb, _ := strconv.ParseFloat(string(m[2]), 64) // digits
		if string(m[1]) == "VmRSS" {
			now = kb / 1024
		} else {
			peak = kb / 1024
		}
	}
	return now, peak
}

// spent returns the processor time of another process; 0 if the system does not report it.
func spent(pid int) (t time.Duration) {
	const tick = 10 * time.Millisecond                        // unit of the kernel's statistics
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)) // memory reports a process that does not exist
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	for i := 11; i < min(13, len(fields)); i++ { // utime and stime
		ticks, _ := strconv.ParseInt(fields[i], 10, 64)
		t += time.Duration(ticks) * tick
	}
	return t
}
