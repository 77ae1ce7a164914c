package gateway

import (
	"encoding/json"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// The functions of a queue run in their order, one at a time. Other queues do not wait for them.
func TestQueues(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var q queues
		var parts sync.WaitGroup
		var mu sync.Mutex
		var got []string
		begun := time.Now()
		do := func(what string, takes time.Duration) func() {
			return func() {
				time.Sleep(takes)
				mu.Lock()
				defer mu.Unlock()
				got = append(got, what)
			}
		}
		q.add(&parts, "slow", do("slow 1", 3*time.Second))
		q.add(&parts, "slow", do("slow 2", 2*time.Second))
		q.add(&parts, "quick", do("quick 1", time.Second))
		q.add(&parts, "slow", do("slow 3", time.Second))
		q.add(&parts, "quick", do("quick 2", 0))
		parts.Wait()
		if want := []string{"quick 1", "quick 2", "slow 1", "slow 2", "slow 3"}; !slices.Equal(got, want) {
			t.Errorf("they ended in the order %q, want %q", got, want)
		}
		if took := time.Since(begun); took != 6*time.Second {
			t.Errorf("they took %v, want 6s", took)
		}
		if len(q.waiting) > 0 {
			t.Errorf("%d queues are left", len(q.waiting))
		}
		q.add(&parts, "slow", do("slow 4", 0))
		parts.Wait()
		if got[len(got)-1] != "slow 4" {
			t.Errorf("a queue that was used before: %q", got)
		}
	})
}

// Requests that change one session share a queue, whatever they call it. What only reads or waits has none.
func TestQueueOf(t *testing.T) {
	t.Parallel()
	for _, r := range []*request{
		{Method: "chat.send", Params: json.RawMessage(`{"sessionKey":"s1","message":"a"}`)},
		{Method: "chat.abort", Params: json.RawMessage(`{"sessionKey":"s1","runId":7}`)},
		{Method: "sessions.messages.subscribe", Params: json.RawMessage(`{"key":"s1"}`)},
		{Method: "exec.approval.resolve", Params: json.RawMessage(`{"id":"s1/c7/abc","decision":"deny"}`)},
	} {
		if queue, ok := queueOf(r); queue != "s1" || !ok {
			t.Errorf("%s %s: queue %q, %v", r.Method, r.Params, queue, ok)
		}
	}
	for method := range methods {
		queue, ok := queueOf(&request{Method: method, Params: json.RawMessage(`{"sessionKey":"s1","runId":"k1"}`)})
		reads := slices.Contains([]string{"agent.wait", "health", "models.list", "chat.history", "sessions.list",
			"exec.approval.list"}, method)
		if reads == ok {
			t.Errorf("%s: queue %q, %v", method, queue, ok)
		}
	}
}
