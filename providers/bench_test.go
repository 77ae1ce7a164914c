package providers_test

import (
	"bytes"
	"cmp"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

const benchDeltas = 10_000

// BenchmarkStream measures replies of 10 000 deltas that a server on loopback sends as fast as it can: for each API one
// of text and one of a tool call.
func BenchmarkStream(b *testing.B) {
	for _, api := range served() {
		b.Run(api+"/text", func(b *testing.B) { benchmarkStream(b, api, wireReplies[api].text(benchDeltas)) })
		b.Run(api+"/call", func(b *testing.B) { benchmarkStream(b, api, wireReplies[api].call(benchDeltas)) })
	}
}

func benchmarkStream(b *testing.B, api string, body []byte) {
	req := wireRequest(api, serveBody(b, api, body, false), nil)
	b.SetBytes(int64(len(body)))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for b.Loop() {
		if n := countDeltas(b, api, req); n != benchDeltas {
			b.Fatalf("%d deltas, want %d", n, benchDeltas)
		}
	}
	runtime.ReadMemStats(&after)
	deltas := float64(b.N) * benchDeltas
	b.ReportMetric(deltas/b.Elapsed().Seconds(), "deltas/s")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/deltas, "allocs/delta")
}

// BenchmarkFirstEvent measures the time from the header of the response, which arrives with the first events, to the
// first delta.
func BenchmarkFirstEvent(b *testing.B) {
	for _, api := range served() {
		b.Run(api, func(b *testing.B) {
			url := serveBody(b, api, wireReplies[api].text(1), true)
			var total time.Duration
			for b.Loop() {
				total += timeToFirstDelta(b, api, url)
			}
			b.ReportMetric(float64(total.Nanoseconds())/float64(b.N), "ns/first")
		})
	}
}

// TestFirstEventIsNotHeldBack uses the best of many tries, because slower ones measure the load of the machine.
func TestFirstEventIsNotHeldBack(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			url := serveBody(t, api, wireReplies[api].text(1), true)
			best := time.Hour
			for range 50 {
				best = min(best, timeToFirstDelta(t, api, url))
			}
			if best >= time.Millisecond {
				t.Errorf("the first delta came %s after the response's head", best)
			}
		})
	}
}

// TestStreamCostIsLinear checks that the cost of a delta does not grow with the number of deltas before it.
func TestStreamCostIsLinear(t *testing.T) { // not parallel, because it counts all allocations
	const times = 8
	few := 1000
	if raceDetector {
		few = 200
	}
	for _, api := range served() {
		replies := map[string]func(int) []byte{"text": wireReplies[api].text, "call": wireReplies[api].call}
		switch api {
		case "bedrock-converse-stream":
			replies["hidden"] = hiddenThinking
		case "anthropic-messages":
			replies["signature"] = signedThinking
		}
		for kind, reply := range replies {
			t.Run(api+"/"+kind, func(t *testing.T) {
				short, long := bytesFor(t, api, reply(few)), bytesFor(t, api, reply(few*times))
				if long > 2*times*short {
					t.Errorf("%d deltas allocate %d bytes, %d times as many %d", few, short, times, long)
				}
			})
		}
	}
}

// hiddenThinking is a reply of Bedrock with encrypted thinking in several pieces.
func hiddenThinking(pieces int) []byte {
	return frameStream(wireFrame{"messageStart", `{"role":"assistant"}`},
		wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":` +
			`{"redactedContent":"QUFB","text":"§"}}}`},
		wireFrame{"messageStop", `{"stopReason":"end_turn"}`})(pieces)
}

// signedThinking is a reply of Anthropic with thinking whose signature has several pieces.
func signedThinking(pieces int) []byte {
	return eventStream(
		"event: content_block_start\n"+`data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking"}}`,
		"event: content_block_delta\n"+`data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta",`+
			`"signature":"§"}}`,
		"event: message_stop\n"+`data: {"type":"message_stop"}`)(pieces)
}

// bytesFor returns how many bytes reading a reply allocates.
func bytesFor(t *testing.T, api string, body []byte) uint64 {
	req := wireRequest(api, serveBody(t, api, body, false), nil)
	countDeltas(t, api, req) // connects
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	countDeltas(t, api, req)
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// serveBody returns the URL of a server that sends this body, in one piece with the header, to every request. If hold
// is true, it keeps the response open after the body.
func serveBody(tb testing.TB, api string, body []byte, hold bool) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = bytes.NewBuffer(nil).ReadFrom(r.Body)
		w.Header().Set("Content-Type", cmp.Or(wireReplies[api].contentType, "text/event-stream"))
		_, _ = w.Write(body)
		if hold {
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}
	}))
	tb.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return s.URL
}

func isDelta(kind schemas.StreamEventType) bool {
	return kind == schemas.StreamTextDelta || kind == schemas.StreamThinkingDelta || kind == schemas.StreamToolCallDelta
}

// countDeltas reads a reply, which must not fail, and returns the number of its deltas.
func countDeltas(tb testing.TB, api string, req *providers.Request) (n int) {
	for e, err := range apis[api](tb.Context(), req) {
		switch {
		case err != nil:
			tb.Fatal(err)
		case e.Type == schemas.StreamError:
			tb.Fatal(e.Message.ErrorMessage)
		case isDelta(e.Type):
			n++
		}
	}
	return n
}

func timeToFirstDelta(tb testing.TB, api, url string) time.Duration {
	req := wireRequest(api, url, nil)
	var head time.Time
	req.OnResponse = func(int, http.Header) { head = time.Now() }
	for e, err := range apis[api](tb.Context(), req) {
		switch {
		case err != nil:
			tb.Fatal(err)
		case e.Type == schemas.StreamError:
			tb.Fatal(e.Message.ErrorMessage)
		case isDelta(e.Type):
			return time.Since(head)
		}
	}
	tb.Fatal("no delta")
	return 0
}
