package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream/eventstreamapi"
)

// secret is a key that must be seen by a vendor only.
const secret = "sk-a-key-that-nobody-else-may-see-0123456789"

// greeting is what every vendor says.
const greeting = "Good morning from the vendor."

// vendors are replies as the vendor of each API streams them.
var vendors = map[string][]byte{
	"anthropic-messages": sse(
		`{"type":"message_start","message":{"id":"m1","usage":{"input_tokens":3,"output_tokens":1}}}`,
		`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
		`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+greeting+`"}}`,
		`{"type":"content_block_stop","index":0}`,
		`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9}}`, `{"type":"message_stop"}`),
	"openai-completions": completions(), "mistral-conversations": completions(),
	"openai-responses": responses(), "azure-openai-responses": responses(),
	"google-generative-ai": gemini(), "google-vertex": gemini(),
	"bedrock-converse-stream": frames(
		"messageStart", `{"role":"assistant"}`, "contentBlockDelta",
		`{"contentBlockIndex":0,"delta":{"text":"`+greeting+`"}}`,
		"contentBlockStop", `{"contentBlockIndex":0}`, "messageStop", `{"stopReason":"end_turn"}`,
		"metadata", `{"usage":{"inputTokens":3,"outputTokens":9,"totalTokens":12}}`),
}

func completions() []byte {
	return sse(`{"id":"c1","choices":[{"index":0,"delta":{"content":"`+greeting+`"}}]}`,
		`{"id":"c1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}],"usage":{"prompt_tokens":3,`+
			`"completion_tokens":9}}`, `[DONE]`)
}

func responses() []byte {
	return sse(`{"type":"response.output_item.added","output_index":0,"item":{"id":"m1","type":"message"}}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"id":"m1","type":"message",`+
			`"content":[{"type":"output_text","text":"`+greeting+`"}]}}`,
		`{"type":"response.completed","response":{"id":"r1","status":"completed"}}`)
}

func gemini() []byte {
	return sse(`{"candidates":[{"content":{"parts":[{"text":"` + greeting + `"}]},"finishReason":"STOP"}]}`)
}

// sse writes server-sent events, with the name that some vendors' SDKs want to see.
func sse(events ...string) []byte {
	var b bytes.Buffer
	for _, data := range events {
		var e struct {
			Type string `json:"type"`
		}
		_ = json.Unmarshal([]byte(data), &e)
		if e.Type != "" {
			fmt.Fprintf(&b, "event: %s\n", e.Type)
		}
		fmt.Fprintf(&b, "data: %s\n\n", data)
	}
	return b.Bytes()
}

// frames writes events as Bedrock does: names and payloads in turns.
func frames(events ...string) []byte {
	var b bytes.Buffer
	for pair := range slices.Chunk(events, 2) {
		frame := eventstream.Message{Payload: []byte(pair[1])}
		frame.Headers.Set(eventstreamapi.EventTypeHeader, eventstream.StringValue(pair[0]))
		frame.Headers.Set(eventstreamapi.MessageTypeHeader, eventstream.StringValue(eventstreamapi.EventMessageType))
		if err := eventstream.NewEncoder().Encode(&b, frame); err != nil {
			panic(err)
		}
	}
	return b.Bytes()
}

// shop is a file of models with one provider for each API, all at the URL, and a file with a key for each.
func shop(t *testing.T, url string) (models, keys string) {
	t.Helper()
	list, held := map[string]any{}, map[string]string{}
	for api := range vendors {
		list["my-"+api] = map[string]any{"models": map[string]any{"m": map[string]any{
			"api": api, "baseUrl": url + "/" + api, "input": []string{"text"}, "contextWindow": 100000, "maxTokens": 1000}}}
		held["my-"+api] = secret
	}
	encode := func(v any) string {
		data, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	return write(t, "models.json", encode(map[string]any{"providers": list})), write(t, "keys.json", encode(held))
}

// TestEveryAPIAnswers has the runner ask a loopback server by each API, with everything in its log.
func TestEveryAPIAnswers(t *testing.T) {
	t.Parallel()
	for _, api := range slices.Sorted(maps.Keys(vendors)) {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			seen := make(chan bool, 100)
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen <- strings.Contains(fmt.Sprint(r.Header), secret)
				w.Header().Set("Content-Type", "text/event-stream")
				if api == "bedrock-converse-stream" {
					w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
				}
				_, _ = w.Write(vendors[api])
			}))
			defer server.Close()
			models, keys := shop(t, server.URL)
			p := start(t, []string{"HOME=" + t.TempDir()}, "--models", models, "--keys", keys, "--model", "my-"+api+"/m",
				"--log-level", "debug",
				"--json", "--prompt", "Say good morning.").wantExit(0)
			if !strings.Contains(p.stdout.String(), greeting) {
				t.Errorf("no greeting in:\n%.3000s", p.stdout.String())
			}
			select {
			case key := <-seen:
				if !key {
					t.Error("the vendor did not get the key")
				}
			default:
				t.Error("the vendor was not asked")
			}
			wantNoSecret(t, p)
		})
	}
}

// TestNoKeyIsTold has a vendor say the key back in every way there is.
func TestNoKeyIsTold(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Echo", secret)
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprintf(w, `{"error":{"message":"the key %s is not valid","type":"auth"}}`, secret)
	}))
	t.Cleanup(server.Close)
	models, keys := shop(t, server.URL)
	for _, api := range slices.Sorted(maps.Keys(vendors)) {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			p := start(t, []string{"HOME=" + t.TempDir()}, "--models", models, "--keys", keys, "--model", "my-"+api+"/m",
				"--log-level", "debug",
				"--json", "--prompt", "Hello.").wantExit(1)
			if !strings.Contains(p.stdout.String(), "is not valid") {
				t.Errorf("the error is not told:\n%.3000s", p.stdout.String())
			}
			wantNoSecret(t, p)
		})
	}
}

func wantNoSecret(t *testing.T, p *process) {
	t.Helper()
	for name, text := range map[string]string{"events": p.stdout.String(), "log": p.stderr.String()} {
		if strings.Contains(text, secret) {
			t.Errorf("the key is in the %s", name)
		}
	}
}

func TestModelsAreNamedOrRefused(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--model claude-haiku-9": "did you mean anthropic/claude-haiku-4-5",
		"--model nothing/at-all": `no model "nothing/at-all"`,
		"--fallbacks nobody":     `--fallbacks: no model "nobody"`, "--temperature hot": "--temperature",
		"--thinking-budgets low":    "--thinking-budgets",
		"--keys /nowhere/keys.json": "--keys", "--models /nowhere/models.json": "--models",
	} {
		p := start(t, nil, append(strings.Fields(args), "--prompt", "x")...).wantExit(2)
		if !strings.Contains(p.stderr.String(), want) {
			t.Errorf("%s: %q, want %q", args, p.stderr.String(), want)
		}
	}
	p := start(t, []string{"ANTHROPIC_API_KEY=" + secret}, "--prompt", "x", "--models", write(t, "m.json",
		`{"providers":{"anthropic":{"defaults":{"baseUrl":"http://127.0.0.1:1"}}}}`), "--max-retries", "0").wantExit(1)
	if got := p.stderr.String(); !strings.Contains(got, "ANTHROPIC_API_KEY is set: using the model anthropic/") {
		t.Errorf("stderr has %q", got)
	}
	wantNoSecret(t, p)
}

// TestTheReadmeNamesModelsThatThereAre holds every line of the README that asks for a model.
func TestTheReadmeNamesModelsThatThereAre(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	named := map[string]bool{}
	for line := range strings.Lines(string(readme)) {
		_, rest, ok := strings.Cut(line, "--model ")
		if !ok || !strings.Contains(line, "go run") || strings.HasPrefix(rest, modelRehearsal) {
			continue
		}
		env := map[string]string{}
		for _, word := range strings.Fields(line) {
			if name, _, ok := strings.Cut(word, "="); ok {
				env[name] = "x"
			}
		}
		var m modelSettings
		m.Model, m.Thinking, m.CacheRetention = strings.Fields(rest)[0], "off", "short"
		if errs := m.resolve(func(name string) string { return env[name] }); len(errs) > 0 {
			t.Errorf("%s: %v", strings.TrimSpace(line), errs)
			continue
		}
		p := m.chosen.Provider
		if !m.hasKey(p) && p != "google-vertex" && p != "amazon-bedrock" { // which have credentials of their own
			t.Errorf("%s: the variables are not those of %s", strings.TrimSpace(line), p)
		}
		named[p] = true
	}
	for _, provider := range []string{"anthropic", "openai", "google", "mistral", "xai", "deepseek", "groq", "cerebras",
		"openrouter",
		"amazon-bedrock", "google-vertex", "azure-openai-responses", "ollama", "vllm"} {
		if !named[provider] {
			t.Errorf("no line shows how to use %s", provider)
		}
	}
}

func TestKeysOfTheFlag(t *testing.T) {
	t.Parallel()
	seen := make(chan string, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r.Header.Get("X-Api-Key")
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(vendors["anthropic-messages"])
	}))
	t.Cleanup(server.Close)
	models := write(t, "m.json", `{"providers":{"anthropic":{"defaults":{"baseUrl":"`+server.URL+`"}}}}`)
	p := start(t, []string{"ANTHROPIC_API_KEY=sk-another", "LOOPBUS_API_KEY=openai=x,anthropic=" + secret}, "--models",
		models,
		"--model", "haiku", "--prompt", "x").wantExit(0)
	if got := <-seen; got != secret {
		t.Errorf("the vendor got the key %q", got)
	}
	wantNoSecret(t, p)
	p = start(t, nil, "--api-key", secret, "--prompt", "x").wantExit(2)
	if !strings.Contains(p.stderr.String(), "--api-key: item 1 is not of the form PROVIDER=KEY") {
		t.Errorf("stderr has %q", p.stderr.String())
	}
	wantNoSecret(t, p)
}
