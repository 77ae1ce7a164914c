package providers_test

import (
	"net/http"
	"testing"

	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// sentBy returns the headers of the one request that an API makes.
func sentBy(t *testing.T, api string, change func(*providers.Request)) (sent http.Header) {
	t.Helper()
	req := serveFault(t, api, func(w http.ResponseWriter, r *http.Request) {
		sent = r.Header.Clone()
		w.WriteHeader(http.StatusTeapot)
	})
	change(req)
	final(t, t.Context(), api, req)
	return sent
}

// TestCopilotHeaders checks that GitHub Copilot gets the headers for the initiator and for images, on every API.
func TestCopilotHeaders(t *testing.T) {
	t.Parallel()
	image := schemas.Image{Data: "iVBORw0KGgo=", MimeType: "image/png"}
	user := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Go."}}}
	shown := &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: "Look."}, image}}
	call := schemas.ToolCall{ID: "call_1", Name: "ls", Arguments: []byte(`{}`)}
	reply := &schemas.AssistantMessage{Content: schemas.Contents{call}, StopReason: schemas.StopToolUse}
	said := schemas.Contents{schemas.Text{Text: "a"}}
	result := &schemas.ToolResultMessage{ToolCallID: "call_1", ToolName: "ls", Content: said}
	picture := &schemas.ToolResultMessage{ToolCallID: "call_1", ToolName: "ls", Content: schemas.Contents{image}}
	for _, api := range served() {
		for name, c := range map[string]struct {
			messages          schemas.Messages
			initiator, vision string
		}{
			"a user":                      {schemas.Messages{user}, "user", ""},
			"a result":                    {schemas.Messages{user, reply, result}, "agent", ""},
			"a reply":                     {schemas.Messages{user, reply}, "agent", ""},
			"nobody":                      {nil, "user", ""},
			"an image":                    {schemas.Messages{shown}, "user", "true"},
			"an image of before":          {schemas.Messages{shown, reply, result}, "agent", "true"},
			"an image as a tool's result": {schemas.Messages{user, reply, picture, user}, "user", "true"},
		} {
			t.Run(api+"/"+name, func(t *testing.T) {
				t.Parallel()
				sent := sentBy(t, api, func(r *providers.Request) {
					r.Model.Provider, r.Messages = "github-copilot", c.messages
					r.Model.Input = []string{providers.InputText, providers.InputImage}
				})
				for header, want := range map[string]string{
					"X-Initiator": c.initiator, "Openai-Intent": "conversation-edits", "Copilot-Vision-Request": c.vision,
				} {
					if got := sent.Get(header); got != want {
						t.Errorf("%s: %q, want %q", header, got, want)
					}
				}
			})
		}
	}
}

// TestCopilotKeyIsABearer checks that Copilot gets its key as a bearer token, also with the API of Anthropic, which has
// its own header.
func TestCopilotKeyIsABearer(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"anthropic-messages", "openai-completions", "openai-responses"} {
		sent := sentBy(t, api, func(r *providers.Request) { r.Model.Provider = "github-copilot" })
		if got := sent.Get("Authorization"); got != "Bearer a-key-for-tests" || sent.Get("X-Api-Key") != "" {
			t.Errorf("%s: authorization %q, x-api-key %q", api, got, sent.Get("X-Api-Key"))
		}
	}
}

// TestCopilotHeadersGiveWay checks that a request's own headers replace Copilot's, that Copilot's replace the model's,
// and that other providers do not get them.
func TestCopilotHeadersGiveWay(t *testing.T) {
	t.Parallel()
	for _, api := range served() {
		sent := sentBy(t, api, func(r *providers.Request) {
			r.Model.Provider = "github-copilot"
			r.Model.Headers = map[string]string{"X-Initiator": "of the model", "Editor-Version": "vscode/1"}
			r.Headers = map[string]string{"openai-intent": "of the request"}
		})
		if sent.Get("X-Initiator") != "user" || sent.Get("Openai-Intent") != "of the request" ||
			sent.Get("Editor-Version") != "vscode/1" {
			t.Errorf("%s: %v", api, sent)
		}
		if sent := sentBy(t, api, func(*providers.Request) {}); sent.Get("X-Initiator")+sent.Get("Openai-Intent") != "" {
			t.Errorf("%s tells others than Copilot: %v", api, sent)
		}
	}
}
