package providers_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

type object = map[string]any

// recording is a recorded case. testdata/FORMAT.md explains its members.
type recording struct {
	Name    string          `json:"name"`
	API     string          `json:"api"`
	Entry   string          `json:"entry"`
	Model   providers.Model `json:"model"`
	Context struct {
		SystemPrompt string                   `json:"systemPrompt"`
		Messages     schemas.Messages         `json:"messages"`
		Tools        []schemas.ToolDefinition `json:"tools"`
	} `json:"context"`
	Options        json.RawMessage   `json:"options"`
	Env            map[string]string `json:"env"`
	Abort          *abortion         `json:"abort"`
	HTTP           script            `json:"http"`
	ObserveHeaders []string          `json:"observeHeaders"`
	Compare        struct {
		ErrorMessage any    `json:"errorMessage"`
		Retryable    string `json:"retryable"`
		Skip         string `json:"skip"`
	} `json:"compare"`
	Expected object `json:"expected"`

	singles map[string]bool // texts of user messages recorded as a list of just this text
}

// options holds the options that every API knows. The whole object becomes the request's Vendor.
type options struct {
	APIKey          string                          `json:"apiKey"`
	Reasoning       schemas.ThinkingLevel           `json:"reasoning"`
	ThinkingBudgets map[schemas.ThinkingLevel]int64 `json:"thinkingBudgets"`
	Temperature     *float64                        `json:"temperature"`
	MaxTokens       int64                           `json:"maxTokens"`
	CacheRetention  providers.CacheRetention        `json:"cacheRetention"`
	SessionID       string                          `json:"sessionId"`
	Headers         map[string]string               `json:"headers"`
	TimeoutMs       int64                           `json:"timeoutMs"`
	MaxRetries      *int                            `json:"maxRetries"`
	Metadata        map[string]any                  `json:"metadata"`
	ToolChoice      json.RawMessage                 `json:"toolChoice"`
}

// parseRecording reads a case to play against the server at url.
func parseRecording(raw []byte, url string) (*recording, error) {
	raw = bytes.ReplaceAll(markHalves(raw), []byte("{{BASE_URL}}"), []byte(url))
	r := &recording{singles: make(map[string]bool)}
	if err := json.Unmarshal(raw, r); err != nil {
		return nil, err
	}
	if r.Abort != nil && !slices.Contains(abortMoments, r.Abort.When) {
		return nil, fmt.Errorf("case %s: no abort %q is known", r.Name, r.Abort.When)
	}
	var plain struct {
		Context struct {
			Messages []struct {
				Role    schemas.Role    `json:"role"`
				Content json.RawMessage `json:"content"`
			} `json:"messages"`
		} `json:"context"`
	}
	if err := json.Unmarshal(raw, &plain); err != nil {
		return nil, err
	}
	for _, m := range plain.Context.Messages {
		var blocks []schemas.Text
		if m.Role == schemas.RoleUser && json.Unmarshal(m.Content, &blocks) == nil && len(blocks) == 1 {
			r.singles[blocks[0].Text] = true
		}
	}
	r.Context.SystemPrompt = halves(r.Context.SystemPrompt)
	halvesInMessages(r.Context.Messages)
	return r, nil
}

// recordedCredentials sign requests to AWS. The recordings do not contain theirs.
var recordedCredentials = map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "secret"}

// recordedRetries is the number of retries of the reference's clients, for cases that do not state it.
const recordedRetries = 2

// request returns the request of the case. Its environment has only the variables of the case.
func (r *recording) request(t *testing.T) *providers.Request {
	var o options
	if err := json.Unmarshal(r.Options, &o); err != nil {
		t.Fatal(err)
	}
	getenv := func(name string) string { return r.Env[name] }
	if r.API == "bedrock-converse-stream" { // its reference has its own credentials and does not use the key
		o.APIKey = ""
		getenv = func(name string) string { return cmp.Or(r.Env[name], recordedCredentials[name]) }
	}
	if o.APIKey == "" {
		o.APIKey = providers.KeyFromEnv(r.Model.Provider, getenv)
	}
	if o.CacheRetention == "" && r.Env["PI_CACHE_RETENTION"] == "long" { // the reference's own variable
		o.CacheRetention = providers.CacheLong
	}
	req := &providers.Request{
		Model: &r.Model, SystemPrompt: r.Context.SystemPrompt, Messages: r.Context.Messages, Tools: r.Context.Tools,
		APIKey: o.APIKey, Reasoning: o.Reasoning, ThinkingBudgets: o.ThinkingBudgets, Temperature: o.Temperature,
		MaxTokens: o.MaxTokens, CacheRetention: o.CacheRetention, SessionID: o.SessionID, Headers: o.Headers,
		Metadata: o.Metadata, ToolChoice: o.ToolChoice, Direct: r.Entry == "stream", Vendor: r.Options,
		Timeout: time.Duration(o.TimeoutMs) * time.Millisecond, MaxRetries: recordedRetries, Getenv: getenv,
	}
	if o.MaxRetries != nil {
		req.MaxRetries = *o.MaxRetries
	}
	return req
}

// recordings returns the files of cases below a folder.
func recordings(t *testing.T, folder string) []string {
	files := slices.DeleteFunc(filesBelow(t, folder), func(path string) bool { return !isRecording(path) })
	if len(files) == 0 {
		t.Fatalf("no cases in %s", folder)
	}
	return files
}

// filesBelow returns the JSON files below a folder.
func filesBelow(t *testing.T, folder string) (files []string) {
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.HasSuffix(path, ".json") {
			files = append(files, path)
		}
		return err
	})
	if err != nil || len(files) == 0 {
		t.Fatalf("%d JSON files below %s: %v", len(files), folder, err)
	}
	return files
}

// isRecording reports whether a file is a case and not other JSON in the same folder.
func isRecording(path string) bool {
	raw, err := os.ReadFile(path)
	if err != nil {
		return true // playing the case will report the error
	}
	var head struct {
		API  string          `json:"api"`
		HTTP json.RawMessage `json:"http"`
	}
	return json.Unmarshal(raw, &head) != nil || head.API != "" && head.HTTP != nil
}
