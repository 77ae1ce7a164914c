package scripted

import (
	"context"
	"fmt"
	"iter"
	"regexp"
	"time"

	"github.com/loopbus/loopbus/providers/internal/playback"
	"github.com/loopbus/loopbus/schemas"
)

// The replies to a request for which the script has no response.
const (
	TextExhausted = "No more scripted responses queued"
	TextNoMatch   = "No script matches the last user message"
)

// DefaultChunkSize is the default number of characters per delta.
const DefaultChunkSize = 16

// Options configures a [Model]. The zero value is usable.
type Options struct {
	ChunkSize  int              // characters in a delta; 0 means DefaultChunkSize
	ChunkDelay time.Duration    // pause before each delta
	Now        func() time.Time // for the timestamps of messages; nil means time.Now
}

// Script is a list of responses. Match selects it by the text of the last user message; nil always matches. With
// Loop, the responses start again after the last one.
type Script struct {
	Match     *regexp.Regexp
	Responses []Response
	Loop      bool
}

// Model plays scripts. It is immutable and safe for concurrent use.
type Model struct {
	now     func() time.Time
	scripts []script
	chosen  bool // the last user message selects the script, and responses are counted from there
}

type script struct {
	match   *regexp.Regexp
	replies []reply
	loop    bool
}

// reply is a response, and the failures that its first attempts get.
type reply struct {
	good   *playback.Reply
	failed []*playback.Reply
}

func newReply(r Response, o Options) (reply, error) {
	good, err := r.prepare(o)
	made := reply{good: good}
	for _, text := range r.Fail {
		made.failed = append(made.failed, playback.Failure(text))
	}
	return made, err
}

func (r reply) attempt(n int) *playback.Reply {
	if n < len(r.failed) {
		return r.failed[n]
	}
	return r.good
}

var (
	exhausted = playback.Failure(TextExhausted)
	unmatched = playback.Failure(TextNoMatch)
)

// New returns a model that plays the responses in order. It panics if one is invalid; see [NewScripts].
func New(responses ...Response) *Model {
	m, err := NewScripts(Options{}, Script{Responses: responses})
	if err != nil {
		panic(err)
	}
	return m
}

// NewScripts returns a model that plays the first matching script. The error names the script, if there are several,
// and the response, both counted from 1.
func NewScripts(o Options, scripts ...Script) (*Model, error) {
	if o.ChunkSize == 0 {
		o.ChunkSize = DefaultChunkSize
	}
	if o.ChunkSize < 0 || o.ChunkDelay < 0 {
		return nil, fmt.Errorf("scripted: chunk size %d and delay %s must not be negative", o.ChunkSize, o.ChunkDelay)
	}
	m := &Model{now: o.Now}
	if m.now == nil {
		m.now = time.Now
	}
	for i, s := range scripts {
		prepared := script{match: s.Match, loop: s.Loop}
		m.chosen = m.chosen || s.Match != nil
		for j, response := range s.Responses {
			reply, err := newReply(response, o)
			if err != nil {
				return nil, fmt.Errorf("scripted: %w", &placeError{script: i + 1, scripts: len(scripts), response: j + 1, err: err})
			}
			prepared.replies = append(prepared.replies, reply)
		}
		m.scripts = append(m.scripts, prepared)
	}
	return m, nil
}

// placeError is the error of a response, with its position in the scripts.
type placeError struct {
	script, scripts, response int
	err                       error
}

func (e *placeError) Error() string {
	where := fmt.Sprintf("response %d", e.response)
	if e.scripts > 1 {
		where = fmt.Sprintf("script %d, %s", e.script, where)
	}
	return where + ": " + e.err.Error()
}

func (e *placeError) Unwrap() error { return e.err }

// Stream plays the response for the request. It never yields an error: failures are error events.
func (m *Model) Stream(ctx context.Context, req schemas.ModelRequest) iter.Seq2[schemas.StreamEvent, error] {
	return func(yield func(schemas.StreamEvent, error) bool) {
		m.reply(req.Messages, req.Attempt).Play(ctx, playback.PlaceOf(req), m.now(), yield)
	}
}

// reply returns the reply for a transcript and the number of the attempt.
func (m *Model) reply(messages schemas.Messages, attempt int) *playback.Reply {
	prompt := ""
	if m.chosen {
		prompt, messages = lastPrompt(messages)
	}
	for i := range m.scripts {
		s := &m.scripts[i]
		if s.match != nil && !s.match.MatchString(prompt) {
			continue
		}
		n := countReplies(messages)
		if s.loop && len(s.replies) > 0 {
			n %= len(s.replies)
		}
		if n >= len(s.replies) {
			return exhausted
		}
		return s.replies[n].attempt(attempt)
	}
	return unmatched
}

// lastPrompt returns the text of the last user message and the messages after it.
func lastPrompt(messages schemas.Messages) (text string, after schemas.Messages) {
	for i := len(messages) - 1; i >= 0; i-- {
		if user, ok := messages[i].(*schemas.UserMessage); ok {
			return user.Content.JoinText(), messages[i+1:]
		}
	}
	return "", messages
}

// countReplies returns the number of replies without the failed ones, whose requests are retried.
func countReplies(messages schemas.Messages) (n int) {
	for _, m := range messages {
		if reply, ok := m.(*schemas.AssistantMessage); ok && !reply.Failed() {
			n++
		}
	}
	return n
}
