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
)

// A StreamFunc answers a request by one API. The package documentation says what the stream is like. The request is not
// changed, and must not be changed before the stream has ended. Breaking off the iteration ends the request. The
// function may be called concurrently; an iterator is for one goroutine and one use.
type StreamFunc func(ctx context.Context, req *Request) iter.Seq2[schemas.StreamEvent, error]

// CacheRetention says how long a vendor should remember the beginning of a conversation.
type CacheRetention string

// The retentions. The zero value counts as [CacheShort].
const (
	CacheNone  CacheRetention = "none"
	CacheShort CacheRetention = "short" // the vendor's default, minutes
	CacheLong  CacheRetention = "long"  // the most the vendor has, an hour or a day
)

// TextAborted is the error text of a reply whose context was done.
const TextAborted = "Request was aborted"

// What a [Request] has where it says nothing.
const (
	DefaultOutput        = 32_000 // tokens; less if the model cannot give as many
	DefaultTimeout       = 10 * time.Minute
	DefaultIdleTimeout   = 5 * time.Minute
	DefaultMaxRetryDelay = time.Minute
)

// IdlePatience is how many times the idle limit a vendor may send events with which the reply does not get on: an hour
// by default.
const IdlePatience = 12

// Request is one call of a model, with everything it needs of the process it is made in. The zero value of a member is
// the default or nothing, as documented there.
type Request struct {
	Model        *Model
	SystemPrompt string
	Messages     schemas.Messages
	Tools        []schemas.ToolDefinition

	APIKey string // never in an event; resolved for this request

	Reasoning       schemas.ThinkingLevel           // as the session asks for it, not yet clamped; empty is off
	ThinkingBudgets map[schemas.ThinkingLevel]int64 // tokens, over the usual ones
	Temperature     *float64
	MaxTokens       int64 // of the reply; 0: see Direct
	CacheRetention  CacheRetention
	SessionID       string            // keeps a session on the vendor's same cache, where it can
	Headers         map[string]string // over those of the model and the API
	Metadata        map[string]any    // about the user; vendors take of it what they know
	ToolChoice      json.RawMessage   // a string or an object, in the vendor's own form

	// Direct says that nothing is to be derived: thinking is what Vendor says and not Reasoning, and there is no
	// output limit but MaxTokens. Without it, Reasoning is translated for the vendor, and a MaxTokens of 0 becomes
	// DefaultOutput or the model's limit, whichever is less.
	Direct bool

	// Vendor holds further options of the API as a JSON object, see [Request.DecodeVendor].
	Vendor json.RawMessage

	Limits Limits // of what is read of the vendor\'s answer

	Timeout time.Duration // of each attempt, until the response begins; 0 is DefaultTimeout
	// IdleTimeout is how long a response that has begun may be without an event, and [IdlePatience] times as long with
	// none that gets the reply on; 0 is DefaultIdleTimeout, negative none.
	IdleTimeout time.Duration
	// MaxRetries is how many attempts the vendor's SDK may make after the first, before the response begins. It is 0
	// where somebody else asks again: the loop does, and counts, waits and logs each attempt. Google's and Mistral's APIs
	// make none.
	MaxRetries    int
	MaxRetryDelay time.Duration // a vendor that asks for a longer wait is not asked again; 0 is DefaultMaxRetryDelay

	HTTP       *http.Client                         // its transport and cookie jar are used; nil is http.DefaultTransport
	Now        func() time.Time                     // for the timestamps of messages; nil is time.Now
	Getenv     func(name string) string             // the environment; nil is an empty one
	OnResponse func(status int, header http.Header) // called for the head of every response, also of failed attempts
	// OnPayload is called with the JSON body of every attempt and returns what is sent in its place; an error gives the
	// request up. A body that the SDK has signed, as for Amazon Bedrock, is sent without a call.
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

// Time returns the time that the request's clock shows.
func (r *Request) Time() time.Time {
	if r.Now == nil {
		return time.Now()
	}
	return r.Now()
}

// System returns the system prompt as it may be sent, see [CleanText].
func (r *Request) System() string { return wtf8.Clean(r.SystemPrompt) }

// Output returns the limit of the reply in tokens that is to be sent, 0 for none.
func (r *Request) Output() int64 {
	if r.MaxTokens > 0 || r.Direct {
		return r.MaxTokens
	}
	return min(r.Model.MaxTokens, DefaultOutput)
}

// Level returns the thinking level to ask the model for, and whether the session asks for one at all. With Direct it
// does not.
func (r *Request) Level() (level schemas.ThinkingLevel, asked bool) {
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

// DecodeVendor reads the API's own options into a struct of the API package; members it does not know are ignored.
// Without options it changes nothing.
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

// noKeyError is the provider that there is no key for.
type noKeyError string

func (e noKeyError) Error() string { return "No API key for provider: " + string(e) }

// FailureCode returns auth.
func (e noKeyError) FailureCode() schemas.FailureCode { return schemas.FailureAuth }
