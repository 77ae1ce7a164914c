package agui

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/loopbus/loopbus/bus/bridge"
	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/client"
	"github.com/loopbus/loopbus/schemas"
)

// The tools of all clients together are bounded, because each has a queue. A client may replace its own.
func TestToolsOfAllClientsAreBounded(t *testing.T) {
	t.Parallel()
	f := newFrontends(nil, slog.New(slog.DiscardHandler))
	for n := range maxAllTools / maxTools {
		f.all[strconv.Itoa(n)] = &frontend{count: maxTools}
	}
	if err := f.room(nil, 1); err == nil || !strings.Contains(err.Error(), "2048 tools") {
		t.Errorf("one more tool: %v", err)
	}
	if err := f.room(f.all["0"], maxTools); err != nil {
		t.Errorf("other tools of the same client: %v", err)
	}
	f.all["0"].count--
	if err := f.room(nil, 1); err != nil {
		t.Errorf("when there is room: %v", err)
	}
	for n := range maxFrontends {
		f.all[strconv.Itoa(n)] = &frontend{count: 1}
	}
	if err := f.room(nil, 1); err == nil || !strings.Contains(err.Error(), "256 threads") {
		t.Errorf("one more thread: %v", err)
	}
	f.closed = true
	if err := f.room(f.all["0"], 1); err == nil {
		t.Error("a closed bridge has room")
	}
}

func post(b *Bridge, body io.Reader) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	b.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/ag-ui", body))
	return w
}

// A request is refused before many small values are decoded, and if its ids are too long to be remembered.
func TestInputsThatAreTooLarge(t *testing.T) {
	t.Parallel()
	b := New(nil, Options{})
	t.Cleanup(b.Close)
	const ids = `"threadId":"s1","runId":"r1"`
	many, long := strings.Repeat("{},", maxValues/2)+"{}", strings.Repeat("x", 2<<10)
	for body, want := range map[string]int{
		`{` + ids + `,"messages":[` + many + `]}`:        http.StatusRequestEntityTooLarge,
		`{` + ids + `,"resume":[` + many + `]}`:          http.StatusRequestEntityTooLarge,
		`{` + ids + `,"a":"` + filled(maxInput) + `"}`:   http.StatusRequestEntityTooLarge,
		`{"threadId":"` + long + `","runId":"r1"}`:       http.StatusBadRequest,
		`{"threadId":"s1","runId":"` + long + `"}`:       http.StatusBadRequest,
		`{` + ids + `,"protocolVersion":"` + long + `"}`: http.StatusBadRequest,
	} {
		if w := post(b, strings.NewReader(body)); w.Code != want {
			t.Errorf("%.60s: %d %s, want %d", body, w.Code, w.Body, want)
		}
	}
	run := &run{in: &runInput{Resume: make([]resume, maxCalls+1)}}
	if _, err := run.undecided(); err == nil {
		t.Error("a resume of too many calls is taken")
	}
	run.in.Resume = []resume{{InterruptID: long, Status: "cancelled"}}
	if _, err := run.undecided(); err == nil {
		t.Error("the id of an interrupt is too long, and taken")
	}
	tools := []frontendTool{{Description: filled(maxDefinitions)}}
	if _, err := b.frontends.serve(t.Context(), "s1", "", tools); err == nil {
		t.Error("a description that is too long is taken")
	}
}

func filled(n int) string { return strings.Repeat("x", n) }

// Requests that arrive slowly have so many bytes together, and keep no small one out.
func TestInputsAtOnceAreBounded(t *testing.T) {
	t.Parallel()
	b := New(nil, Options{})
	t.Cleanup(b.Close)
	b.budget = bridge.NewBudget(1<<20, maxValues)
	var slow sync.WaitGroup
	defer slow.Wait()
	for range 2 {
		body, rest := io.Pipe()
		defer rest.Close()
		slow.Go(func() { post(b, body) })
		for _, part := range []string{`{"a":"` + filled(500<<10), ""} { // the second is read once the first counts
			if _, err := io.WriteString(rest, part); err != nil {
				t.Fatal(err)
			}
		}
	}
	w := post(b, strings.NewReader(`{"a":"`+filled(100<<10)+`"}`))
	if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("a large request beside others: %d %s", w.Code, w.Body)
	}
	if w := post(b, strings.NewReader(`{"runId":"r1"}`)); w.Code != http.StatusBadRequest {
		t.Errorf("a small request beside large ones: %d %s", w.Code, w.Body)
	}
}

// A stream does not keep its input. This test is not parallel, because it looks at the memory of the process.
func TestStreamsKeepNoInputs(t *testing.T) {
	conn := bustest.New(t)
	c, err := client.New(conn.NATS(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := New(c, Options{})
	t.Cleanup(b.Close)
	b.budget = bridge.NewBudget(4<<20, maxValues)
	ctx, stop := context.WithCancel(t.Context())
	var streams sync.WaitGroup
	defer streams.Wait()
	defer stop()
	before := live()
	const n, size = 16, 1 << 20 // more than fit in the budget at once
	for i := range n {
		id := strconv.Itoa(i)
		body := `{"threadId":"s` + id + `","runId":"r","messages":[{"id":"a","role":"assistant","content":"` + filled(size) +
			`"},{"id":"u","role":"user","content":"hi"}]}`
		w := &begun{ResponseRecorder: httptest.NewRecorder(), begun: make(chan struct{})}
		streams.Go(func() {
			b.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/ag-ui", strings.NewReader(body)).WithContext(ctx))
		})
		select {
		case <-w.begun:
		case <-bustest.Deadline(t).Done():
			t.Fatalf("stream %d does not begin", i+1)
		}
		if w.Code != http.StatusOK {
			t.Fatalf("stream %d: %d %s", i+1, w.Code, w.Body)
		}
	}
	bustest.Eventually(t, "the inputs are dropped", func() bool { return live() < before+n/4*size })
}

// begun tells when an answer begins.
type begun struct {
	*httptest.ResponseRecorder
	begun chan struct{}
}

// WriteHeader implements [http.ResponseWriter].
func (w *begun) WriteHeader(code int) {
	w.ResponseRecorder.WriteHeader(code)
	close(w.begun)
}

// live returns the bytes of the heap that are in use.
func live() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// An answer whose call does not arrive counts until it is forgotten, and one whose call is over does not.
func TestAnswersCountWhileTheyAreKept(t *testing.T) {
	t.Parallel()
	budget := bridge.NewBudget(1<<20, maxValues)
	f := newFrontends(nil, slog.New(slog.DiscardHandler))
	large := filled(400 << 10)
	answer := func() (err error) {
		hold := budget.Hold("")
		defer hold.Release()
		content, err := hold.ReadAll(strings.NewReader(large))
		if err == nil {
			key := schemas.CallKey("c" + strconv.Itoa(len(f.calls)))
			f.answer("s1", map[schemas.CallKey]inputMessage{key: {Content: content}}, hold)
		}
		return err
	}
	for range 2 {
		if err := answer(); err != nil {
			t.Fatal(err)
		}
	}
	if answer() == nil {
		t.Error("answers that are kept do not count")
	}
	f.over("s1", "c0")
	if err := answer(); err != nil {
		t.Errorf("when one is over: %v", err)
	}
}

// While the tools of a client are checked, which may take seconds, others do not wait for it, nor does a runner that
// stops; whoever waits for its turn ends with its request.
func TestNobodyWaitsForCostlyTools(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFrontends(nil, slog.New(slog.DiscardHandler))
		known := &frontend{tools: "[]", stop: func() {}}
		f.all["s1"] = known
		endTurn, err := f.making.Wait(t.Context(), struct{}{}, 1) // another client's tools are checked
		if err != nil {
			t.Fatal(err)
		}
		defer endTurn()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if one, err := f.worker(ctx, "s1", "", "[]", nil); one != known || err != nil {
			t.Errorf("tools that are announced already: %v, %v", one, err)
		}
		if _, err := f.worker(ctx, "s2", "", "[1]", make([]frontendTool, 1)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("others: %v", err)
		}
		f.close()
	})
}
