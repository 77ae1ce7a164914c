package providers

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
	"github.com/loopbus/loopbus/schemas/progress"
)

// A StreamFunc calls a model through one API. The package documentation describes the stream. It does not modify the
// request, which must not be modified before the stream ends. Leaving the iteration ends the request. The function is
// safe for concurrent use; each iterator is for one goroutine and one use.
type StreamFunc func(ctx context.Context, req *Request) iter.Seq2[schemas.StreamEvent, error]

// CacheRetention is how long a vendor should cache the beginning of a conversation.
type CacheRetention string

// The retentions. The zero value counts as [CacheShort].
const (
	CacheNone  CacheRetention = "none"
	CacheShort CacheRetention = "short" // the vendor's default, minutes
	CacheLong  CacheRetention = "long"  // the most the vendor has, an hour or a day
)

// TextAborted is the error text of a reply whose context ended.
const TextAborted = "Request was aborted"

// The defaults of a [Request].
const (
	DefaultOutput        = 32_000 // tokens; less if the model cannot give as many
	DefaultTimeout       = 10 * time.Minute
	DefaultIdleTimeout   = 5 * time.Minute
	DefaultMaxRetryDelay = time.Minute
)

// IdlePatience is the number of idle limits for which a vendor may send events that do not advance the reply: one
// hour by default.
const IdlePatience = progress.Patience

// Request is one call of a model, with everything it needs from its process. The zero value of a field is its default
// or means nothing, as documented there.
type Request struct {
	Model        *Model
	SystemPrompt string
	Messages     schemas.Messages
	Tools        []schemas.ToolDefinition

	APIKey string // never in an event; resolved for this request

	Reasoning       schemas.ThinkingLevel           // the session's level, not yet clamped; empty is off
	ThinkingBudgets map[schemas.ThinkingLevel]int64 // tokens, in place of the default ones
	Temperature     *float64
	MaxTokens       int64 // of the reply; 0: see Direct
	CacheRetention  CacheRetention
	SessionID       string            // lets a vendor that supports it route a session to the same cache
	Headers         map[string]string // in place of those of the model and the API
	Metadata        map[string]any    // about the user; each API sends the members that its vendor knows
	ToolChoice      json.RawMessage   // a string or an object, in the vendor's own form

	// Direct is true if nothing is derived: Vendor and not Reasoning sets the thinking, and MaxTokens is the only
	// output limit. If it is false, Reasoning is translated for the vendor, and a MaxTokens of 0 becomes DefaultOutput
	// or the model's limit, whichever is less.
	Direct bool

	// Vendor holds further options of the API as a JSON object, see [Request.DecodeVendor].
	Vendor json.RawMessage

	Limits Limits // of the vendor's response

	Timeout time.Duration // of each attempt, until the response begins; 0 is DefaultTimeout
	// IdleTimeout is how long a response that has begun may send no event. For [IdlePatience] times as long it may send
	// events that do not advance the reply. 0 is DefaultIdleTimeout, a negative value no limit.
	IdleTimeout time.Duration
	// MaxRetries is how many attempts the vendor's SDK may make after the first, before the response begins. It is 0
	// for callers that retry themselves: the loop does, and counts, waits and logs each attempt. Google's and Mistral's
	// APIs ignore it and do not retry.
	MaxRetries    int
	MaxRetryDelay time.Duration // no retry if the vendor requests a longer wait; 0 is DefaultMaxRetryDelay

	// HTTP has the transport and the cookie jar to use. Nil is a transport like http.DefaultTransport that accepts 64 KiB
	// of response headers and requests no compression.
	HTTP       *http.Client
	Now        func() time.Time                     // for the timestamps of messages; nil is time.Now
	Getenv     func(name string) string             // the environment; nil is an empty one
	OnResponse func(status int, header http.Header) // called for the head of every response, also of failed attempts
	// OnPayload is called with the JSON body of every attempt and returns the body to send. An error fails the request.
	// It is not called for a body that the SDK has signed, as for Amazon Bedrock.
	OnPayload func(ctx context.Context, payload json.RawMessage) (json.RawMessage, error)
}

// Env returns the first of the environment variables that is not empty.
func (r *Request) Env(names ...string) string {
	if r.Getenv == nil {
		return ""
	}
	for _, name := range names {
		if v := r.Getenv(name); v != "" {
			return v
		}
	}
	return ""
}

// Time returns the current time of the request's clock.
func (r *Request) Time() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// System returns the system prompt, cleaned for sending; see [CleanText].
func (r *Request) System() string { return wtf8.Clean(r.SystemPrompt) }

// Output returns the limit of output tokens to send, 0 for none.
func (r *Request) Output() int64 {
	if r.MaxTokens > 0 || r.Direct {
		return r.MaxTokens
	}
	return min(r.Model.MaxTokens, DefaultOutput)
}

// Level returns the thinking level to request from the model. requested reports whether the session requests a level at
// all; it is false with Direct.
func (r *Request) Level() (level schemas.ThinkingLevel, requested bool) {
	if r.Direct || r.Reasoning == "" || r.Reasoning == schemas.ThinkingOff {
		return schemas.ThinkingOff, false
	}
	return r.Model.Clamp(r.Reasoning), true
}

// Retention returns the cache retention, never empty.
func (r *Request) Retention() CacheRetention {
	if r.CacheRetention == "" {
		return CacheShort
	}
	return r.CacheRetention
}

// DecodeVendor decodes the API's own options into a struct of the API package and ignores unknown members. Without
// options it changes nothing.
func (r *Request) DecodeVendor(into any) error {
	if len(r.Vendor) == 0 {
		return nil
	}
	if err := json.Unmarshal(r.Vendor, into); err != nil {
		return fmt.Errorf("options for %s: %w", r.Model.API, err)
	}
	return nil
}

// NeedKey returns an error if there is no API key.
func (r *Request) NeedKey() error {
	if r.APIKey == "" {
		return noKeyError(r.Model.Provider)
	}
	return nil
}

// noKeyError is the error of a request without a key for the provider.
type noKeyError string

func (e noKeyError) Error() string { return "No API key for provider: " + string(e) }

// FailureCode returns [schemas.FailureAuth].
func (e noKeyError) FailureCode() schemas.FailureCode { return schemas.FailureAuth }
