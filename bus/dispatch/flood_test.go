package dispatch_test

import (
	"bytes"
	"runtime"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest"
	"github.com/loopbus/loopbus/bus/dispatch"
	"github.com/loopbus/loopbus/schemas"
)

// wrong is an answer with so many bytes of details that nobody waits for.
func wrong(t *testing.T, size int) []byte {
	t.Helper()
	result := schemas.TextResult("")
	result.Details = append(append([]byte("["), bytes.Repeat([]byte("{},"), size/3)...), "0]"...)
	req := schemas.ToolRequest{Call: "c1", ToolCallID: "c1", ToolName: "mine", Nonce: "wrong"}
	data, err := schemas.Marshal(req.Answer("w1", result, false, 0))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// flood sends, to each of the requests, answers that nobody can use: the first waits to be decoded, and the others
// are as large as messages may be.
func (a *answering) flood(requests []schemas.ToolRequest, first, others []byte) error {
	for n := range 4 {
		for _, req := range requests {
			data := others
			if n == 0 {
				data = first
			}
			if err := a.server.Publish(req.ReplyTo, data); err != nil {
				return err
			}
		}
	}
	return a.server.FlushTimeout(time.Minute)
}

// most is the largest heap in MiB until stop is closed.
func most(stop <-chan struct{}) (peak uint64) {
	for {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		peak = max(peak, m.HeapAlloc>>20)
		select {
		case <-stop:
			return peak
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// A worker of one tool sends as much as it can for the calls of its tool that wait. That takes bounded memory, and the
// calls of other tools have their answers meanwhile.
func TestAFloodOfAnswers(t *testing.T) {
	if !bustest.Alone(t) {
		return
	}
	const calls, largest = 200, 400
	a := newAnswering(t)
	var ends []<-chan ended
	var requests []schemas.ToolRequest
	for range calls {
		ends = append(ends, a.begin("mine"))
	}
	for range calls {
		requests = append(requests, a.request())
	}
	release := dispatch.HoldAnswers(a.caller, "mine") // the most that can wait does
	stop, peak := make(chan struct{}), make(chan uint64, 1)
	go func() { peak <- most(stop) }()
	flooded := make(chan error, 1)
	first, others := wrong(t, 100_000), wrong(t, 900_000)
	go func() { flooded <- a.flood(requests, first, others) }()
	longest, n := time.Duration(0), 0
	for going := true; going; n++ {
		begun := time.Now()
		req, end := a.call("bash")
		a.answer(req.ReplyTo, req, "done")
		a.wantText("a call of another tool", end, "done")
		longest = max(longest, time.Since(begun))
		select {
		case err := <-flooded:
			if err != nil {
				t.Fatal(err)
			}
			going = false
		default:
		}
	}
	close(stop)
	got := bustest.Within(t, peak)
	release()
	a.stop() // a NATS server may have dropped all that was sent for some of the calls
	for _, end := range ends {
		if got := bustest.Within(t, end); got.err == nil {
			t.Errorf("%+v", got.response)
		}
	}
	t.Logf("%d MiB, %d calls of another tool of %s at most", got, n, longest)
	if got > largest {
		t.Errorf("the heap had %d MiB", got)
	}
	if longest > 15*time.Second {
		t.Errorf("a call of another tool took %s", longest)
	}
	if in := dispatch.Answers(a.caller)["bash"].Stats().InMsgs; in != uint64(n) {
		t.Errorf("%d messages came with the answers of the other tool", in)
	}
}
