//go:build unix

package processes_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// soakWindow is the context window of the model, in tokens.
const soakWindow = 8000

// soakModel is a vendor in this process, with the chat completions API. Its window is small, and like other vendors it
// rejects a result without its call and a call without its result. A summary repeats the lines of the conversation that
// start with "needle". Each runner has a different URL of the model, so that the model knows which one to kill.
type soakModel struct {
	server *httptest.Server
	kill   func(runner, doing string)

	mu        sync.Mutex
	random    *rand.Rand
	turns     int // number of replies, without summaries
	summaries int
	overflows int
	illegal   []string
	most      int    // tokens of the largest request
	shown     string // conversation of the last request that was not for a summary
	calls     int
	asked     int // number of requests since the trap was set
	trap      *soakTrap
}

// soakTrap kills the runner that makes the nth request from now: before the answer, or in the middle of it.
type soakTrap struct {
	nth    int
	middle bool
}

func newSoakModel(t *testing.T, random *rand.Rand) *soakModel {
	m := &soakModel{random: random}
	m.server = httptest.NewServer(m)
	t.Cleanup(m.server.Close)
	return m
}

// catalogue writes the catalogue with which a runner finds the model.
func (m *soakModel) catalogue(t *testing.T, runner string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "models.json")
	raw := encoded(object{"providers": object{"lab": object{
		"name": "Lab", "keyless": true,
		"defaults": object{"api": "openai-completions", "baseUrl": m.server.URL + "/" + runner, "input": []string{"text"}},
		"models":   object{"narrow": object{"contextWindow": soakWindow, "maxTokens": 1000}},
	}}})
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// set sets a trap.
func (m *soakModel) set(trap *soakTrap) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.trap, m.asked = trap, 0
}

// caught returns the trap that this request triggers, or nil.
func (m *soakModel) caught() *soakTrap {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.trap == nil {
		return nil
	}
	if m.asked++; m.asked < m.trap.nth {
		return nil
	}
	trap := m.trap
	m.trap = nil
	return trap
}

// soakRequest has the fields of a request that the model reads.
type soakRequest struct {
	Messages []soakMessage `json:"messages"`
}

type soakMessage struct {
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCallID string          `json:"tool_call_id"`
	ToolCalls  []struct {
		ID string `json:"id"`
	} `json:"tool_calls"`
}

// text returns the text of a message, which is a string or a list of parts.
func (s soakMessage) text() (text string) {
	var parts []struct{ Text string }
	if json.Unmarshal(s.Content, &text) == nil || json.Unmarshal(s.Content, &parts) != nil {
		return text
	}
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func (m *soakModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var request soakRequest
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || len(request.Messages) == 0 {
		http.Error(w, fmt.Sprintf("no request: %v", err), http.StatusBadRequest)
		return
	}
	runner, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	trap := m.caught()
	doing := "reply"
	if isSummary(request) {
		doing = "summary"
	}
	if trap != nil && !trap.middle {
		m.kill(runner, doing+" not begun")
		return
	}
	tokens := soakTokens(request)
	content, finish, refusal := m.answer(request, tokens)
	if refusal != "" {
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprintf(w, `{"error":{"message":%q,"code":"context_length_exceeded"}}`, refusal)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	chunk := func(delta any, finish any, more object) {
		c := object{"id": "c", "object": "chat.completion.chunk", "model": "narrow",
			"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}
		for k, v := range more {
			c[k] = v
		}
		fmt.Fprintf(w, "data: %s\n\n", encoded(c))
		w.(http.Flusher).Flush()
	}
	chunk(object{"role": "assistant", "content": ""}, nil, nil)
	if trap != nil {
		m.kill(runner, doing+" begun")
		return
	}
	chunk(content, nil, nil)
	chunk(object{}, finish, object{"usage": object{
		"prompt_tokens": tokens, "completion_tokens": 100, "total_tokens": tokens + 100,
	}})
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// isSummary reports whether a request is for a summary.
func isSummary(r soakRequest) bool { return strings.Contains(r.Messages[0].text(), "summaries") }

// soakTokens returns the length of a conversation, at four bytes per token.
func soakTokens(r soakRequest) int {
	raw := encoded(r.Messages)
	return (len(raw) + 3) / 4
}

// answer returns the content of the reply and its finish reason, or the reason why the request is rejected.
func (m *soakModel) answer(r soakRequest, tokens int) (delta object, finish, refusal string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if wrong := illegalRequest(r.Messages); wrong != "" {
		m.illegal = append(m.illegal, wrong)
		return nil, "", wrong
	}
	if tokens > soakWindow {
		m.overflows++
		return nil, "", fmt.Sprintf("maximum context length is %d tokens, got %d", soakWindow, tokens)
	}
	m.most = max(m.most, tokens)
	last := r.Messages[len(r.Messages)-1]
	if isSummary(r) {
		m.summaries++
		return object{"content": "## Goal\nGo on.\n" + needles(last.text())}, "stop", ""
	}
	m.turns++
	m.shown = string(encoded(r.Messages))
	if last.Role == "user" && strings.HasPrefix(last.text(), "look") {
		m.calls++
		call := object{"index": 0, "id": fmt.Sprint("call_", m.calls), "type": "function",
			"function": object{"name": "read", "arguments": `{"path":"file"}`}}
		return object{"tool_calls": []any{call}}, "tool_calls", ""
	}
	return object{"content": "Well " + strings.Repeat("said ", 20+m.random.IntN(200))}, "stop", ""
}

// needles returns the lines of a text, each from "needle" on and once.
func needles(text string) (found string) {
	for line := range strings.Lines(text) {
		at := strings.Index(line, "needle")
		if at >= 0 && !strings.Contains(found, strings.TrimSpace(line[at:])) {
			found += strings.TrimSpace(line[at:]) + "\n"
		}
	}
	return found
}

// illegalRequest returns why vendors would reject a conversation, or "".
func illegalRequest(messages []soakMessage) string {
	open := map[string]bool{}
	for i, m := range messages {
		if m.Role == "tool" {
			if !open[m.ToolCallID] {
				return fmt.Sprintf("message %d is a result of %q, which is not called", i, m.ToolCallID)
			}
			delete(open, m.ToolCallID)
			continue
		}
		if len(open) > 0 {
			return fmt.Sprintf("message %d follows calls without a result", i)
		}
		for _, c := range m.ToolCalls {
			open[c.ID] = true
		}
	}
	if len(open) > 0 {
		return "the conversation ends with calls without a result"
	}
	return ""
}
