package providers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/providers/internal/assemble"
	"github.com/loopbus/loopbus/providers/internal/sse"
	"github.com/loopbus/loopbus/providers/internal/transport"
	"github.com/loopbus/loopbus/providers/internal/wtf8"
	"github.com/loopbus/loopbus/schemas"
)

// parrot is an API that sends a given body and understands what most replies of openai-completions need.
// It shows how the parts of an API package fit together, and allows testing the player of the cases.
func parrot(body []byte) providers.StreamFunc {
	return func(ctx context.Context, req *providers.Request) iter.Seq2[schemas.StreamEvent, error] {
		return assemble.Run(ctx, req, func(ctx context.Context, s *assemble.Stream) error {
			if err := req.NeedKey(); err != nil {
				return err
			}
			tap := transport.New(req)
			post, err := http.NewRequestWithContext(ctx, http.MethodPost, req.Model.BaseURL+"/chat/completions",
				bytes.NewReader(body))
			if err != nil {
				return err
			}
			post.Header.Set("Content-Type", "application/json")
			post.Header.Set("Authorization", "Bearer "+req.APIKey)
			resp, err := tap.Client().Do(post)
			if err != nil {
				return err
			}
			defer func() { _ = resp.Body.Close() }()
			if resp.StatusCode >= 400 {
				_, _ = io.Copy(io.Discard, resp.Body)
				failure, _ := tap.Failure()
				return fmt.Errorf("%d %s", failure.Status, failure.Text())
			}
			s.Start()
			err = repeat(s, sse.NewDecoder(resp.Body, s.Share()))
			if ctx.Err() != nil {
				s.EndAll()
			}
			return err
		})
	}
}

// parrotChunk holds the members of a chunk that the parrot understands.
type parrotChunk struct {
	ID      string `json:"id"`
	Choices []struct {
		Delta struct {
			Content   wtf8.Text `json:"content"`
			ToolCalls []struct {
				Index    int    `json:"index"`
				ID       string `json:"id"`
				Function struct {
					Name      string    `json:"name"`
					Arguments wtf8.Text `json:"arguments"`
				} `json:"function"`
			} `json:"tool_calls"`
		} `json:"delta"`
		FinishReason string `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
}

func repeat(s *assemble.Stream, events *sse.Decoder) error {
	var text *assemble.Block
	calls := make(map[int]*assemble.Block)
	for {
		e, err := events.Next()
		if errors.Is(err, io.EOF) || err == nil && string(e.Data) == "[DONE]" {
			return nil
		} else if err != nil {
			return err
		}
		var chunk parrotChunk
		if err := json.Unmarshal(e.Data, &chunk); err != nil {
			return err
		}
		s.SetResponseID(chunk.ID)
		if u := chunk.Usage; u.Prompt > 0 {
			s.SetUsage(schemas.Usage{
				Input: u.Prompt - u.Details.Cached, CacheRead: u.Details.Cached, Output: u.Completion,
				TotalTokens: u.Prompt + u.Completion,
			})
		}
		for _, c := range chunk.Choices {
			if c.Delta.Content != "" {
				if text == nil {
					text = s.OpenText()
				}
				text.Delta(string(c.Delta.Content))
			}
			for _, call := range c.Delta.ToolCalls {
				if calls[call.Index] == nil {
					calls[call.Index] = s.OpenToolCall(call.ID, call.Function.Name)
				}
				calls[call.Index].Delta(string(call.Function.Arguments))
			}
			if c.FinishReason != "" {
				s.Finish(schemas.StopReason(c.FinishReason))
			}
		}
	}
}

// recorded returns a case of openai-completions with some texts replaced, and the parrot that sends its request.
func recorded(t *testing.T, name string, replace ...string) ([]byte, providers.StreamFunc) {
	raw, err := os.ReadFile(conformanceFolder + "/openai-completions/" + name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	var r struct {
		Expected struct {
			Request struct {
				Body json.RawMessage `json:"body"`
			} `json:"request"`
		} `json:"expected"`
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(replace...).Replace(string(raw))
	if len(replace) > 0 && changed == string(raw) {
		t.Fatalf("%s has no %q", name, replace)
	}
	return []byte(changed), parrot(r.Expected.Request.Body)
}

func TestPlayerAcceptsWhatIsRight(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"text-plain", "drop-midstream", "abort-midstream", "surrogate-pair-split-across-deltas", "connection-refused",
		"text-utf8-cut-every-5-bytes",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, stream := recorded(t, name)
			for _, problem := range play(t, raw, stream, nil) {
				t.Error(problem)
			}
		})
	}
}

func TestPlayerNoticesWhatIsWrong(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string][]string{
		"request (":          {`"store": false`, `"store": true`},
		"x-affinity":         {`"authorization": "Bearer test-key"`, `"authorization": "Bearer test-key", "x-affinity": "a"`},
		"number of requests": {`"requestCount": 1`, `"requestCount": 2`},
		"statuses":           {`"responseStatuses": [`, `"responseStatuses": [ 201,`},
		"stream (":           {`"contentIndex": 0`, `"contentIndex": 1`},
		"responseId":         {`"responseId": "chatcmpl-1"`, `"responseId": "chatcmpl-2"`},
		"cost":               {`"total": `, `"total": 1`},
		"context overflow":   {`"contextOverflow": false`, `"contextOverflow": true`},
		"retryable":          {`"retryable": false`, `"retryable": true`},
		"error text":         {`"http": {`, `"compare": {"errorMessage": "nonempty"}, "http": {`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			raw, stream := recorded(t, "text-plain", replace...)
			problems := strings.Join(play(t, raw, stream, nil), "\n")
			if !strings.Contains(problems, name) {
				t.Errorf("%q was not noticed: %s", replace, problems)
			}
		})
	}
}

func TestBetterOutcomesReplaceRecordedOnes(t *testing.T) {
	t.Parallel()
	raw, stream := recorded(t, "text-plain")
	better := object{"message": object{"responseId": "other"}}
	if problems := play(t, raw, stream, better); len(problems) != 1 || !strings.Contains(problems[0], "other") {
		t.Errorf("problems %q", problems)
	}
	got := merge(object{"a": object{"b": 1.0, "c": 2.0}, "d": []any{1.0}}, object{"a": object{"b": nil}, "d": []any{}})
	if text := jsonText(got); text != `{"a":{"c":2},"d":[]}` {
		t.Error(text)
	}
}

func TestGeneratedIDs(t *testing.T) {
	t.Parallel()
	want := func() any {
		return []any{"{{GENERATED:read:1}}", object{"id": "{{GENERATED:read:1}}"}, "{{GENERATED:ls:2}}"}
	}
	for name, tc := range map[string]struct {
		got  []any
		good bool
	}{
		"different":      {[]any{"a", object{"id": "a"}, "b"}, true},
		"empty":          {[]any{"", object{"id": ""}, "b"}, false},
		"the same":       {[]any{"a", object{"id": "a"}, "a"}, false},
		"not repeated":   {[]any{"a", object{"id": "c"}, "b"}, false},
		"not even there": {[]any{"a"}, false},
	} {
		bound, err := bindGenerated(want(), any(tc.got))
		if good := err == nil && jsonText(bound) == jsonText(tc.got); good != tc.good {
			t.Errorf("%s: %s, %v", name, jsonText(bound), err)
		}
	}
}
