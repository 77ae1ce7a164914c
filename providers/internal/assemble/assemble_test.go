package assemble_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/schemas"
)

// A call whose arguments were cut off, or have a mistake, says so in its event and in the reply.
func TestIncompleteArguments(t *testing.T) {
	for text, want := range map[string]bool{`{"command":"rm -rf precious`: true, `{"command":"rm"}`: false, ``: false} {
		for _, ends := range []bool{true, false} {
			events, final := collect(t, t.Context(), request(), func(_ context.Context, s *assemble.Stream) error {
				call := s.OpenToolCall("c1", "bash")
				call.Delta(text)
				if ends {
					call.End()
				}
				s.Finish(schemas.StopToolUse)
				return nil
			})
			var said bool
			for _, e := range events {
				said = said || e.ToolCall != nil && e.ToolCall.Incomplete
			}
			if calls := final.Content.ToolCalls(); len(calls) != 1 || calls[0].Incomplete != want || said != want {
				t.Errorf("%q, ended by the vendor %v: reply %v, event %v", text, ends, calls, said)
			}
		}
	}
}

func TestBlocksMayOverlap(t *testing.T) {
	events, final := collect(t, t.Context(), request(), func(_ context.Context, s *assemble.Stream) error {
		s.Start()
		s.Start()
		thought := s.OpenThinking()
		text := s.OpenText()
		thought.Delta("hm")
		call := s.OpenToolCall("", "read")
		call.Delta(`{"path": "a`)
		text.Delta("")
		thought.AddSignature("s1")
		thought.End()
		thought.End()
		thought.Delta("late")
		thought.AddSignature("s2")
		call.Identify("c1", "other")
		call.Delta(`.txt"}`)
		call.Sign("sig")
		call.End()
		text.Replace("said at the end")
		s.SetResponseID("r1")
		s.SetUsage(schemas.Usage{Input: 1, Output: 2, TotalTokens: 3})
		s.Finish(schemas.StopToolUse)
		return nil
	})
	const want = `start 0; thinking_start 0; text_start 1; thinking_delta 0 hm; toolcall_start 2 /read; ` +
		`toolcall_delta 2 {"path": "a; ` +
		`text_delta 1; thinking_end 0 hm; toolcall_delta 2 .txt"}; toolcall_end 2 c1/read{"path":"a.txt"}; ` +
		`text_end 1 said at the end; done 0 toolUse`
	if d := cmp.Diff(want, names(events)); d != "" {
		t.Errorf("events (-want +got):\n%s", d)
	}
	message := &schemas.AssistantMessage{
		API: "wire", Provider: "vendor", Model: "m1", ResponseID: "r1", StopReason: schemas.StopToolUse, Timestamp: 1234,
		Usage: schemas.Usage{Input: 1, Output: 2, TotalTokens: 3, Cost: schemas.Cost{Input: 1, Output: 4, Total: 5}},
		Content: schemas.Contents{
			schemas.Thinking{Thinking: "hm", ThinkingSignature: "s1s2"},
			schemas.Text{Text: "said at the end"},
			schemas.ToolCall{ID: "c1", Name: "read", Arguments: json.RawMessage(`{"path":"a.txt"}`), ThoughtSignature: "sig"},
		},
	}
	if d := cmp.Diff(message, final); d != "" {
		t.Errorf("message (-want +got):\n%s", d)
	}
	if first := events[0].Message; first == nil || len(first.Content) > 0 || first.Model != "m1" {
		t.Errorf("start says %+v", first)
	}
}

func TestStreamEndsWithOneTerminalEvent(t *testing.T) {
	for name, tc := range map[string]struct {
		play   playFunc
		events string
		text   string
	}{
		"an error before the start": {
			func(context.Context, *assemble.Stream) error { return errors.New("401 no") },
			"error 0 error", "401 no",
		},
		"an error in the middle": {
			func(_ context.Context, s *assemble.Stream) error {
				s.OpenToolCall("c", "ls").Delta(`{"a":"b`)
				return errors.New("cut")
			},
			`start 0; toolcall_start 0 c/ls; toolcall_delta 0 {"a":"b; error 0 error`, "cut",
		},
		"an error after finishing": {
			func(_ context.Context, s *assemble.Stream) error {
				s.Finish(schemas.StopStop)
				return errors.New("cut")
			},
			"error 0 error", "cut",
		},
		"without a reason": {
			func(_ context.Context, s *assemble.Stream) error { s.Start(); return nil },
			"start 0; error 0 error", "stream ended without a stop reason",
		},
		"a panic": {
			func(_ context.Context, s *assemble.Stream) error { s.Start(); panic("boom") },
			"start 0; error 0 error", "panic in wire: boom",
		},
		"done without anything": {
			func(_ context.Context, s *assemble.Stream) error { s.Finish(schemas.StopStop); return nil },
			"start 0; done 0 stop", "",
		},
		"a half that stays alone": {
			func(_ context.Context, s *assemble.Stream) error {
				s.OpenText().Delta("a\xed\xa0\xbd")
				s.Finish(schemas.StopLength)
				return nil
			},
			"start 0; text_start 0; text_delta 0 a; text_delta 0 \uFFFD; text_end 0 a\uFFFD; done 0 length", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			events, final := collect(t, t.Context(), request(), tc.play)
			if d := cmp.Diff(tc.events, names(events)); d != "" || final.ErrorMessage != tc.text {
				t.Errorf("text %q, want %q; events (-want +got):\n%s", final.ErrorMessage, tc.text, d)
			}
			if last := events[len(events)-1]; last.Reason != final.StopReason || final.Failed() != (tc.text != "") {
				t.Errorf("reason %s, message says %s", last.Reason, final.StopReason)
			}
		})
	}
}

func TestAbortKeepsContent(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, final := collect(t, ctx, request(), func(ctx context.Context, s *assemble.Stream) error {
		s.OpenText().Delta("half")
		s.OpenToolCall("c", "ls").Delta(`{"path":"/tm`)
		cancel()
		<-ctx.Done()
		return errors.New("some words of the SDK")
	})
	want := schemas.Contents{schemas.Text{Text: "half"},
		schemas.ToolCall{ID: "c", Name: "ls", Arguments: json.RawMessage(`{"path":"/tm"}`), Incomplete: true}}
	if d := cmp.Diff(want, final.Content); d != "" || final.StopReason != schemas.StopAborted ||
		final.ErrorMessage != providers.TextAborted {
		t.Errorf("%s %q (-want +got):\n%s", final.StopReason, final.ErrorMessage, d)
	}
	asked := false
	events, final := collect(t, ctx, request(), func(context.Context, *assemble.Stream) error { asked = true; return nil })
	if asked || len(events) != 1 || final.StopReason != schemas.StopAborted {
		t.Errorf("aborted before the call: asked %t, %s", asked, names(events))
	}
}

func TestSilentStreamTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, final := collect(t, t.Context(), request(), func(ctx context.Context, s *assemble.Stream) error {
			s.OpenText().Delta("and then")
			<-ctx.Done()
			return ctx.Err()
		})
		if final.StopReason != schemas.StopError || !providers.IsRetryable(final, 0) || len(final.Content) != 1 {
			t.Errorf("%s %q %v", final.StopReason, final.ErrorMessage, final.Content)
		}
		if waited := time.Since(began); waited != providers.DefaultIdleTimeout {
			t.Errorf("waited %s", waited)
		}
	})
}

// TestSlowReaderAndHeartbeatsAreNotIdle has a caller take longer over an event than the idle limit, and a vendor send
// heartbeats only.
func TestSlowReaderAndHeartbeatsAreNotIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		req := request()
		req.IdleTimeout = time.Second
		for e := range assemble.Run(t.Context(), req, func(ctx context.Context, s *assemble.Stream) error {
			s.OpenText().Delta("read slowly")
			for range 5 {
				time.Sleep(900 * time.Millisecond)
				s.Alive()
			}
			s.Finish(schemas.StopStop)
			return ctx.Err()
		}) {
			time.Sleep(3 * req.IdleTimeout)
			if e.Type == schemas.StreamError {
				t.Error(e.Message.ErrorMessage)
			}
		}
	})
}

func TestReaderThatLeavesEndsTheRequest(t *testing.T) {
	received := 0
	for range assemble.Run(t.Context(), request(), func(ctx context.Context, s *assemble.Stream) error {
		s.Start()
		<-ctx.Done()
		s.OpenText().Delta("nobody reads this")
		return nil
	}) {
		received++
		break
	}
	if received != 1 {
		t.Errorf("%d events", received)
	}
}

func TestPanicOfTheReaderPassesThrough(t *testing.T) {
	defer func() {
		if r := recover(); r != "mine" {
			t.Errorf("recovered %v", r)
		}
	}()
	for range assemble.Run(t.Context(), request(),
		func(_ context.Context, s *assemble.Stream) error { s.Start(); return nil }) {
		panic("mine")
	}
}

func TestNoSecretInErrorTexts(t *testing.T) {
	req := request()
	req.Headers = map[string]string{"Authorization": "Bearer header-secret-2", "User-Agent": "not-a-secret",
		"X-Lab-Token": "gateway-secret-3"}
	said := []string{req.APIKey, url.QueryEscape(req.APIKey), "header-secret-1", "header-secret-2", "gateway-secret-3"}
	_, final := collect(t, t.Context(), req, func(context.Context, *assemble.Stream) error {
		return &url.Error{Op: "Post", URL: "https://vendor?key=" + req.APIKey,
			Err: errors.New("not-a-secret " + strings.Join(said, " "))}
	})
	for _, secret := range said {
		if strings.Contains(final.ErrorMessage, secret) {
			t.Errorf("%s is in %q", secret, final.ErrorMessage)
		}
	}
	if !strings.HasPrefix(final.ErrorMessage, "not-a-secret [redacted]") {
		t.Error(final.ErrorMessage)
	}
	for cut := range req.APIKey[10:] {
		_, final = collect(t, t.Context(), req, func(context.Context, *assemble.Stream) error {
			return errors.New("said " + req.APIKey + " and " + req.APIKey[:10+cut] + "... [truncated]")
		})
		if want := "said [redacted] and [redacted]... [truncated]"; final.ErrorMessage != want {
			t.Errorf("a text that was cut within the key is %q, want %q", final.ErrorMessage, want)
		}
	}
	unicode := fmt.Sprintf(`\u%04x\u%04X`, req.APIKey[0], req.APIKey[1]) + req.APIKey[2:]
	_, final = collect(t, t.Context(), req, func(context.Context, *assemble.Stream) error {
		return errors.New("said " + unicode)
	})
	if final.ErrorMessage != "said [redacted]" {
		t.Errorf("an escaped key is %q", final.ErrorMessage)
	}
	req.APIKey = "ollama"
	_, final = collect(t, t.Context(), req, func(context.Context,
		*assemble.Stream) error {
		return errors.New("ollama is not running")
	})
	if final.ErrorMessage != "ollama is not running" {
		t.Error(final.ErrorMessage)
	}
}

// stream runs a stream with one tool call of this many deltas. It returns the number of events.
func stream(deltas int) (events int) {
	for range assemble.Run(context.Background(), request(), func(_ context.Context, s *assemble.Stream) error {
		call := s.OpenToolCall("c", "write")
		call.Delta(`{"content":"`)
		for range deltas {
			call.Delta("a few words more")
		}
		call.Delta(`"}`)
		call.End()
		s.Finish(schemas.StopToolUse)
		return nil
	}) {
		events++
	}
	return events
}

// TestCostIsLinear compares two streams: four times the deltas may allocate at most eight times the memory.
func TestCostIsLinear(t *testing.T) {
	measure := func(deltas int) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		stream(deltas)
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	measure(100)
	if small, large := measure(10_000), measure(40_000); large > 8*small {
		t.Errorf("%d bytes for 10000 deltas, %d for 40000", small, large)
	}
}

func BenchmarkToolCallOf10000Deltas(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		stream(10_000)
	}
	b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "deltas/s")
}
