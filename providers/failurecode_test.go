package providers_test

import (
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// wiserThanRecorded lists the recorded failures whose code differs from what the reference concludes from the text.
var wiserThanRecorded = []string{
	"bedrock-converse-stream/exception-throttling-midstream", // the exception is throttling, whatever its text
}

// TestCodesAgreeWithTheRecordings checks that the code of every recorded failure agrees with the reference about
// retries and about the length of the conversation.
func TestCodesAgreeWithTheRecordings(t *testing.T) {
	t.Parallel()
	better := deviations(t)
	for _, file := range recordings(t, conformanceFolder) {
		raw := readFile(t, file)
		r, err := parseRecording(raw, "")
		if err != nil {
			t.Fatal(err)
		}
		place := r.API + "/" + strings.TrimSuffix(filepath.Base(file), ".json")
		if b := better[place]; b != nil {
			r.Expected = merge(r.Expected, b).(object)
		}
		message, _ := r.Expected["message"].(object)
		if message["stopReason"] != string(schemas.StopError) || r.Compare.Retryable == "ignore" {
			continue
		}
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			vendor := newFakeVendor(r.HTTP, nil, 0)
			played, err := parseRecording(raw, vendor.start(t))
			if err != nil {
				t.Fatal(err)
			}
			events := played.run(t, vendor, apis[r.API]).events
			code := events[len(events)-1].FailureCode
			derived := r.Expected["derived"].(object)
			if got := code.Retryable(); got != derived["retryable"] && !slices.Contains(wiserThanRecorded, place) {
				t.Errorf("%s is retryable: %t, recorded %v", code, got, derived["retryable"])
			}
			if got := code == schemas.FailureContextOverflow; got != derived["contextOverflow"] {
				t.Errorf("the code is %s, and the context overflows: %v", code, derived["contextOverflow"])
			}
		})
	}
}

// vendorFailure is a failed response.
type vendorFailure struct {
	status int
	body   string
	want   schemas.FailureCode
}

// vendorFailures lists failed responses of vendors. Any API may receive them.
var vendorFailures = map[string]vendorFailure{
	"a rate limit that mentions billing": {429, `{"error":{"message":"Rate limit reached for gpt-5 in organization ` +
		`org-1 on tokens per min (TPM): Limit 30000, Used 29000, Requested 2000. Please try again in 6s. You can ` +
		`increase your rate ` +
		`limit by adding a payment method to your account at https://platform.openai.com/account/billing.",` +
		`"type":"tokens","param":null,` +
		`"code":"rate_limit_exceeded"}}`,
		schemas.FailureRateLimited},
	"the same without a code": {429,
		`{"error":{"message":"Please try again in 6s. See your billing page for higher limits."}}`,
		schemas.FailureRateLimited},
	"an unpaid bill": {429,
		`{"error":{"message":"You exceeded your current quota, please check your plan and billing details.",` +
			`"type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, schemas.FailureQuota},
	"an unpaid bill in words": {400, `{"error":{"type":"invalid_request_error",` +
		`"message":"Your credit balance is too low. ` +
		`Please go to Plans & Billing to upgrade or purchase credits."}}`, schemas.FailureQuota},
	"a length": {400, `{"error":{"type":"invalid_request_error",` +
		`"message":"prompt is too long: 9 tokens > 8 maximum"}}`, schemas.FailureContextOverflow},
	"a length by its code": {400, `{"error":{"message":"too long","type":"invalid_request_error",` +
		`"code":"context_length_exceeded"}}`, schemas.FailureContextOverflow},
	"a wrong key":        {401, `{"error":{"message":"Incorrect API key"}}`, schemas.FailureAuth},
	"a key as a bad one": {400, `{"error":{"message":"bad","code":"invalid_api_key"}}`, schemas.FailureAuth},
	"no right":           {403, `{"error":{"message":"no"}}`, schemas.FailureAuth},
	"no money":           {402, ``, schemas.FailureQuota},
	"no such model":      {404, `{"error":{"message":"The model does not exist"}}`, schemas.FailureInvalidRequest},
	"a mistake":          {422, `{"error":{"message":"500 is not a valid temperature"}}`, schemas.FailureInvalidRequest},
	"an overload": {529, `{"error":{"type":"overloaded_error",` +
		`"message":"Overloaded"}}`, schemas.FailureOverloaded},
	"an overload by status": {503, `down`, schemas.FailureOverloaded},
	"a failure":             {500, `{"error":{"message":"oops"}}`, schemas.FailureServerError},
	"a bad gateway":         {502, `<html></html>`, schemas.FailureServerError},
	"a gateway's timeout":   {504, ``, schemas.FailureTimeout},
	"a request's timeout":   {408, ``, schemas.FailureTimeout},
	"what is withheld":      {400, `{"error":{"message":"flagged","code":"content_filter"}}`, schemas.FailureRefused},
	"too many requests":     {429, ``, schemas.FailureRateLimited},
}

// TestFailureCodes checks that every API returns the same code for the same response.
func TestFailureCodes(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		for name, f := range vendorFailures {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					w.WriteHeader(f.status)
					_, _ = io.WriteString(w, f.body)
				})
				if got := failureOf(t, api, req); got != f.want {
					t.Errorf("%s, want %s", got, f.want)
				}
			})
		}
	}
}

// failureOf returns the code of a request's failure.
func failureOf(t *testing.T, api string, req *providers.Request) (code schemas.FailureCode) {
	t.Helper()
	for e, err := range apis[api](t.Context(), req) {
		if err != nil {
			t.Fatal(err)
		}
		code = e.FailureCode
	}
	return code
}

// TestFailuresInAStream checks that an error within a stream has its code too.
func TestFailuresInAStream(t *testing.T) {
	t.Parallel()
	responses := map[string]schemas.FailureCode{
		`{"type":"error","code":"rate_limit_exceeded",` +
			`"message":"see billing"}`: schemas.FailureRateLimited,
		`{"type":"error","code":null,"message":"the server is overloaded"}`: schemas.FailureOverloaded,
		`{"type":"response.failed","response":{"error":{"code":"insufficient_quota",` +
			`"message":"rate limit"}}}`: schemas.FailureQuota,
		`{"type":"response.failed","response":{"error":{"code":"server_error",` +
			`"message":"x"}}}`: schemas.FailureServerError,
		`{"type":"response.incomplete","response":{"incomplete_details":` +
			`{"reason":"content_filter"}}}`: schemas.FailureRefused,
		`{"type":"response.completed","response":{"status":"solar_flare"}}`: schemas.FailureUnknown,
		`{"type":"response.failed","response":{"error":{"code":"invalid_prompt",` +
			`"message":"it exceeds the context window"}}}`: schemas.FailureContextOverflow,
	}
	google := map[string]schemas.FailureCode{
		`{"error":{"code":503,"message":"x","status":"UNAVAILABLE"}}`: schemas.FailureOverloaded,
		`{"error":{"code":429,"message":"billing",` +
			`"status":"RESOURCE_EXHAUSTED"}}`: schemas.FailureQuota,
		`{"error":{"code":429,"message":"billing","status":"RESOURCE_EXHAUSTED",` +
			`"details":[{"retryDelay":"9s"}]}}`: schemas.FailureRateLimited,
		`{"candidates":[{"finishReason":"SAFETY"}]}`: schemas.FailureRefused,
	}
	for api, events := range map[string]map[string]schemas.FailureCode{
		"openai-responses": responses, "azure-openai-responses": responses,
		"google-generative-ai": google, "google-vertex": google,
		"openai-completions": {
			`{"error":{"message":"Provider returned error","code":502,"metadata":{"raw":"boom"}}}`: schemas.FailureServerError,
			`{"error":{"message":"x","code":"rate_limit_exceeded"}}`:                               schemas.FailureRateLimited,
			`{"object":"error","message":"too long","type":"BadRequestError",` +
				`"code":400}`: schemas.FailureInvalidRequest,
			`{"choices":[{"finish_reason":"content_filter"}]}`: schemas.FailureRefused,
			`{"choices":[{"finish_reason":"network_error"}]}`:  schemas.FailureConnection,
			`{"choices":[{"finish_reason":"solar_flare"}]}`:    schemas.FailureUnknown,
		},
		"mistral-conversations": {
			`{"object":"error","message":"x","type":"rate_limited","code":"1300"}`: schemas.FailureRateLimited,
			`{"choices":[{"finish_reason":"content_filter"}]}`:                     schemas.FailureRefused,
		},
		"anthropic-messages": {
			`{"type":"error","error":{"type":"overloaded_error","message":"x"}}`: schemas.FailureOverloaded,
			`{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`: schemas.FailureRateLimited,
			`{"type":"error","error":{"type":"api_error","message":"x"}}`:        schemas.FailureServerError,
		},
	} {
		for event, want := range events {
			t.Run(api+"/"+event, func(t *testing.T) {
				t.Parallel()
				req := serveFault(t, api, func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Content-Type", "text/event-stream")
					before, after := "", ""
					switch api {
					case "anthropic-messages":
						before = "event: error\n"
					case "openai-completions", "mistral-conversations":
						after = "data: [DONE]\n\n"
					}
					_, _ = io.WriteString(w, before+"data: "+event+"\n\n"+after)
				})
				if got := failureOf(t, api, req); got != want {
					t.Errorf("%s, want %s", got, want)
				}
			})
		}
	}
}
