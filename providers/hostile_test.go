package providers_test

import (
	"context"
	"io"
	"net/http"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/loopbus/loopbus/bus/bustest/suite"
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// hostileMemory is the most memory that a hostile server may make this process allocate.
const hostileMemory = 256 << 20

// inUse returns the size of the objects on the heap in bytes.
func inUse() uint64 {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// bounded runs f and checks that it uses at most hostileMemory.
func bounded(t *testing.T, f func()) {
	t.Helper()
	runtime.GC()
	before, most := inUse(), uint64(0)
	done, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			most = max(most, inUse())
			select {
			case <-tick.C:
			case <-done:
				return
			}
		}
	}()
	f()
	close(done)
	<-stopped
	t.Logf("%d MiB in use at the most, %d before", most>>20, before>>20)
	if most > before+hostileMemory {
		t.Errorf("that is more than %d MiB", hostileMemory>>20)
	}
}

// flood writes head and then piece after piece until the client closes the connection. It returns the bytes written.
func flood(w io.Writer, head, piece []byte) (sent int64) {
	for part := head; ; part = piece {
		n, err := w.Write(part)
		if sent += int64(n); err != nil {
			return sent
		}
	}
}

// endless returns the beginning of an API's reply of text or of a call, and a delta of this many bytes to repeat.
func endless(api string, call bool, size int) (head, delta []byte) {
	const words = "words "
	if api == "bedrock-converse-stream" {
		text, start := `{"text":"§"}`, `{}`
		if call {
			text, start = `{"toolUse":{"input":"§"}}`, `{"toolUse":{"toolUseId":"t1","name":"bash"}}`
		}
		text = strings.Replace(text, "§", strings.Repeat("w", size), 1)
		return frameBody(wireFrame{"messageStart", `{"role":"assistant"}`},
				wireFrame{"contentBlockStart", `{"contentBlockIndex":0,"start":` + start + `}`}),
			frameBody(wireFrame{"contentBlockDelta", `{"contentBlockIndex":0,"delta":` + text + `}`})
	}
	reply := wireReplies[api].text
	if call {
		reply = wireReplies[api].call
	}
	body := string(reply(3)) // the second delta contains only text
	first := strings.Index(body, words)
	from := first + strings.Index(body[first:], "\n\n") + 2
	to := from + strings.Index(body[from:], "\n\n") + 2
	return []byte(body[:from]), []byte(strings.Replace(body[from:to], words, strings.Repeat("w", size), 1))
}

// floods reads the reply of a server that never stops. It checks that the reply ends with the code too_large, and that
// little memory is used and little is read.
func floods(t *testing.T, api string, limits providers.Limits, head, piece []byte) {
	t.Helper()
	var sent atomic.Int64
	ended := make(chan struct{})
	req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
		defer close(ended)
		beginHead(api, w)
		sent.Store(flood(w, head, piece))
	})
	req.Limits = limits
	bounded(t, func() {
		var last schemas.StreamEvent
		for e := range apis[api](t.Context(), req) {
			last = e
		}
		if last.FailureCode != schemas.FailureTooLarge || last.Message.StopReason != schemas.StopError {
			t.Errorf("%s %s %.100q", last.Reason, last.FailureCode, last.Message.ErrorMessage)
		}
	})
	<-ended
	all := limits.Or(providers.DefaultLimits)
	if most := all.Body + 32<<20; sent.Load() > most { // the connection's buffers count as sent too
		t.Errorf("%d bytes were read, %d are allowed", sent.Load(), all.Body)
	}
}

// TestEndlessReplies has servers that never stop. It measures memory, so it is not parallel. One API is tested with the
// default limits; the others have lower ones, to save time.
func TestEndlessReplies(t *testing.T) {
	suite.LongForm(t)
	little := providers.Limits{Body: 1 << 20, Reply: 512 << 10, Arguments: 256 << 10}
	for _, api := range served() {
		usual := little
		if api == "openai-completions" && !raceDetector {
			usual = providers.Limits{}
		}
		for name, c := range map[string]struct {
			call   bool
			size   int
			limits providers.Limits
		}{
			"text":           {false, 64 << 10, usual},
			"little text":    {false, 1, little},
			"text of nobody": {false, 0, little},
			"arguments":      {true, 64 << 10, usual},
		} {
			t.Run(api+"/"+name, func(t *testing.T) {
				head, delta := endless(api, c.call, c.size)
				floods(t, api, c.limits, head, delta)
			})
		}
		if api == "bedrock-converse-stream" {
			continue // its frames state their length: TestFramesThatSayTheyAreLong
		}
		t.Run(api+"/an event", func(t *testing.T) {
			floods(t, api, usual, []byte("data: {"), []byte(strings.Repeat("w", 64<<10)))
		})
	}
}

// TestManyCalls has servers that send replies with ten thousand calls.
func TestManyCalls(t *testing.T) {
	t.Parallel()
	google := `data: {"candidates":[{"content":{"parts":[{"functionCall":{"name":"ls","args":{}}}]}}]}` + "\n\n"
	responses := `data: {"type":"response.output_item.added","output_index":%d,"item":{"id":"fc_%d",` +
		`"type":"function_call","call_id":"c%d","name":"ls"}}` + "\n\n"
	chat := `data: {"choices":[{"delta":{"tool_calls":[{"index":%d,"id":"c%d","function":{"name":"ls",` +
		`"arguments":"{}"}}]}}]}` + "\n\n"
	for api, call := range map[string]string{
		"google-generative-ai": google, "google-vertex": google,
		"openai-responses": responses, "azure-openai-responses": responses,
		"openai-completions": chat, "mistral-conversations": chat,
		"anthropic-messages": "event: content_block_start\n" +
			`data: {"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":"c%d",` +
			`"name":"ls"}}` + "\n\n",
		"bedrock-converse-stream": `{"contentBlockIndex":%d,"start":{"toolUse":{"toolUseId":"c%d","name":"ls"}}}`,
	} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				beginHead(api, w)
				for n := range 10_000 {
					text := strings.ReplaceAll(call, "%d", strconv.Itoa(n))
					if api == "bedrock-converse-stream" {
						text = string(frameBody(wireFrame{"contentBlockStart", text}))
					}
					if _, err := io.WriteString(w, text); err != nil {
						return
					}
				}
			})
			req.Limits = providers.Limits{}
			last := finalEvent(t, t.Context(), api, req)
			n := int64(len(last.Message.Content))
			if last.FailureCode != schemas.FailureTooLarge || n != providers.DefaultLimits.Calls {
				t.Errorf("%s %q with %d calls", last.FailureCode, last.Message.ErrorMessage, n)
			}
		})
	}
}

// TestEndlessErrorBodies has failed responses that never stop. Their beginning is enough for the error.
func TestEndlessErrorBodies(t *testing.T) { // not parallel, because it measures memory
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			var sent atomic.Int64
			ended := make(chan struct{})
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				defer close(ended)
				w.WriteHeader(http.StatusTooManyRequests)
				sent.Store(flood(w, []byte("slow down "), []byte(strings.Repeat("w", 64<<10))))
			})
			bounded(t, func() {
				last := finalEvent(t, t.Context(), api, req)
				if last.FailureCode != schemas.FailureRateLimited || !strings.Contains(last.Message.ErrorMessage, "slow down") {
					t.Errorf("%s %.100q", last.FailureCode, last.Message.ErrorMessage)
				}
			})
			<-ended
			if sent.Load() > 32<<20 {
				t.Errorf("%d bytes were read of a failing response", sent.Load())
			}
		})
	}
}

// TestAbortOfAnEndlessReply checks that a reply that never ends is aborted at once.
func TestAbortOfAnEndlessReply(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			head, delta := endless(api, false, 100)
			req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
				beginHead(api, w)
				flood(w, head, delta)
			})
			req.Limits = providers.Limits{Body: -1, Reply: -1}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var last schemas.StreamEvent
			after := 0
			for e := range apis[api](ctx, req) {
				if last = e; ctx.Err() != nil {
					after++
				} else if e.Type == schemas.StreamTextDelta {
					cancel()
				}
			}
			if last.Reason != schemas.StopAborted || after > 1_000 {
				t.Errorf("%s, %d events after the abort", last.Reason, after)
			}
		})
	}
}

// TestUsageThatCannotBe checks that the packages that read negative counts do not pass them on.
func TestUsageThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		body := string(wireReplies[api].text(1))
		for _, n := range []string{"3", "9", "12"} {
			body = strings.ReplaceAll(body, `":`+n+`,`, `":-`+n+`,`)
			body = strings.ReplaceAll(body, `":`+n+`}`, `":-`+n+`}`)
		}
		if api == "bedrock-converse-stream" {
			body = string(frameBody(wireFrame{"messageStart", `{"role":"assistant"}`},
				wireFrame{"messageStop", `{"stopReason":"end_turn"}`},
				wireFrame{"metadata", `{"usage":{"inputTokens":-3,"outputTokens":-9,"totalTokens":-12,` +
					`"cacheReadInputTokens":-1}}`}))
		}
		events := replied(t, api, []byte(body), func(r *providers.Request) {
			r.Model.Cost = providers.Rates{Input: 1, Output: 1}
		})
		m := events[len(events)-1].Message
		if m.StopReason != schemas.StopStop || m.Usage != (schemas.Usage{}) {
			t.Errorf("%s: %s %+v", api, m.StopReason, m.Usage)
		}
	}
}
