package providers_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/all"
	"github.com/loopbus/loopbus/schemas"
)

const conformanceFolder = "testdata/conformance"

// apis holds the packages that play the cases, by the API's id.
var apis = all.APIs()

// silentAPIs lists the APIs whose reference implementation never reports a response. This module's all do.
var silentAPIs = []string{"google-generative-ai", "google-vertex", "mistral-conversations"}

// TestConformance plays the recorded cases: same request, same events, same message. Run one API's with
// -run 'TestConformance/anthropic-messages'.
func TestConformance(t *testing.T) { playFolder(t, conformanceFolder) }

// casesEnv is the environment variable with the path of a folder with more cases.
const casesEnv = "LOOPBUS_PROVIDER_CASES"

// TestConformanceOfMore plays the cases in the folder that casesEnv names.
func TestConformanceOfMore(t *testing.T) {
	t.Parallel()
	folder := os.Getenv(casesEnv)
	if folder == "" {
		t.Skip(casesEnv + " names no folder with more cases")
	}
	playFolder(t, folder)
}

func playFolder(t *testing.T, folder string) {
	better := deviations(t)
	for _, file := range recordings(t, folder) {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := parseRecording(raw, "")
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		stream := apis[r.API]
		if stream == nil {
			t.Fatalf("%s: no package speaks %q", file, r.API)
		}
		name := strings.TrimSuffix(filepath.Base(file), ".json")
		t.Run(r.API+"/"+name, func(t *testing.T) {
			t.Parallel()
			for _, problem := range play(t, raw, stream, better[r.API+"/"+name]) {
				t.Error(problem)
			}
		})
	}
}

// outcome is the result of playing a case.
type outcome struct {
	requests []sentRequest
	statuses []any // of the successful responses
	events   []schemas.StreamEvent
}

// play plays a case and returns the differences from its expectation.
func play(t *testing.T, raw []byte, stream providers.StreamFunc, better object) []string {
	r, err := parseRecording(raw, "")
	if err != nil {
		t.Fatal(err)
	}
	requests, _ := r.Expected["requestCount"].(float64)
	vendor := newFakeVendor(r.HTTP, r.Abort, int(requests))
	if r, err = parseRecording(raw, vendor.start(t)); err != nil {
		t.Fatal(err)
	}
	if better != nil {
		r.Expected = merge(r.Expected, better).(object)
	}
	return r.check(r.run(t, vendor, stream))
}

// run makes the request and reads the stream.
func (r *recording) run(t *testing.T, vendor *fakeVendor, stream providers.StreamFunc) (o outcome) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	req := r.request(t)
	transport := http.DefaultTransport.(*http.Transport).Clone()
	defer transport.CloseIdleConnections()
	req.HTTP = &http.Client{Transport: transport}
	req.OnResponse = func(status int, _ http.Header) {
		if status < 400 {
			o.statuses = append(o.statuses, float64(status))
		}
	}
	shown := r.abort(ctx, cancel, vendor)
	for e, err := range stream(ctx, req) {
		if err != nil {
			t.Fatalf("the iterator yielded the error %v", err)
		}
		o.events = append(o.events, e)
		if len(o.events) == r.eventsBeforeAbort() {
			shown()
		}
	}
	o.requests = vendor.sent()
	return o
}

const (
	patience   = 20 * time.Second       // for which an abort waits for the expected events
	abortDelay = 150 * time.Millisecond // after which the caller of a recorded case cancelled
)

// abort cancels the request at the moment that the case states, but not before its reader has called shown: then the
// server has sent everything before that moment, and its events have been read.
func (r *recording) abort(ctx context.Context, cancel func(), vendor *fakeVendor) (shown func()) {
	if r.Abort == nil {
		return func() {}
	}
	if r.Abort.When == abortBeforeCall {
		cancel()
	}
	read := make(chan struct{})
	if r.eventsBeforeAbort() == 0 {
		close(read)
	}
	go func() {
		defer cancel()
		for _, c := range []<-chan struct{}{vendor.reached, read} {
			select {
			case <-c:
			case <-ctx.Done():
				return
			case <-time.After(patience):
			}
		}
		select {
		case <-time.After(abortDelay):
		case <-ctx.Done():
		}
	}()
	return sync.OnceFunc(func() { close(read) })
}

// eventsBeforeAbort returns the number of recorded events before the abort: all of them if the abort was too late to
// matter, or else those that the abort did not cause.
func (r *recording) eventsBeforeAbort() int {
	events := asList(r.Expected["events"])
	if message, _ := r.Expected["message"].(object); message["stopReason"] != string(schemas.StopAborted) {
		return len(events)
	}
	for n := len(events); n > 0; n-- {
		kind := events[n-1].(object)["type"].(string)
		if kind != "error" && !strings.HasSuffix(kind, "_end") {
			return n
		}
	}
	return 0
}

// check compares the outcome of the case with its expectation and returns the differences.
func (r *recording) check(o outcome) (problems []string) {
	differ := func(what string, want, got any, opts ...cmp.Option) {
		if d := cmp.Diff(want, got, opts...); d != "" {
			problems = append(problems, what+" (-want +got):\n"+d)
		}
	}
	var request any
	if len(o.requests) > 0 {
		request = r.requestOf(o.requests[0])
	}
	differ("request", r.comparable(r.Expected["request"]), r.comparable(request))
	if r.Compare.Skip == "outcome" {
		return problems
	}
	differ("number of requests", r.Expected["requestCount"], float64(len(o.requests)))
	if len(o.requests) > 1 && r.Expected["requestsDiffer"] == nil && !sameBodies(o.requests) {
		problems = append(problems, "the bodies of the requests differ")
	}
	if !slices.Contains(silentAPIs, r.API) {
		differ("statuses", r.Expected["responseStatuses"], append([]any{}, o.statuses...))
	}
	return append(problems, r.checkStream(o.events)...)
}

// checkStream compares the events and the final message.
func (r *recording) checkStream(events []schemas.StreamEvent) (problems []string) {
	differ := func(what string, want, got any, opts ...cmp.Option) {
		if d := cmp.Diff(want, got, opts...); d != "" {
			problems = append(problems, what+" (-want +got):\n"+d)
		}
	}
	if len(events) == 0 || !events[len(events)-1].Terminal() || events[len(events)-1].Message == nil {
		return []string{"the stream has no terminal event with a message"}
	}
	last := events[len(events)-1]
	final := last.Message
	if (last.FailureCode != "") != (final.StopReason == schemas.StopError) {
		problems = append(problems, fmt.Sprintf("stop reason %s with the failure code %q", final.StopReason,
			last.FailureCode))
	}
	overflow := providers.IsContextOverflow(final, r.Model.ContextWindow)
	retryable := providers.IsRetryable(final, r.Model.ContextWindow)
	want, _ := r.Expected["message"].(object)
	got := messageOf(final).(object)
	text, _ := want["errorMessage"].(string)
	if r.Compare.ErrorMessage != nil {
		if p := compareText(r.Compare.ErrorMessage, text, final.ErrorMessage, retryable); p != "" {
			problems = append(problems, p)
		}
		delete(want, "errorMessage")
		delete(got, "errorMessage")
	}
	wantAll := object{"events": r.embeddedAll(joinHalves(asList(r.Expected["events"]))), "message": r.embedded(want)}
	gotAll := object{"events": r.embeddedAll(eventsOf(events)), "message": r.embedded(got)}
	bound, err := bindGenerated(wantAll, gotAll)
	if err != nil {
		problems = append(problems, err.Error())
	}
	differ("stream", bound, any(gotAll), roundedCosts)
	derived, _ := r.Expected["derived"].(object)
	differ("context overflow", derived["contextOverflow"], any(overflow))
	if r.Compare.Retryable != "ignore" {
		differ("retryable", derived["retryable"], any(retryable))
	}
	if final.Timestamp == 0 {
		problems = append(problems, "the message has no timestamp")
	}
	return problems
}

func (r *recording) embeddedAll(events []any) []any {
	for i := range events {
		events[i] = r.embedded(events[i])
	}
	return events
}
