package transport

import (
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// copilotHeaders returns the headers that GitHub Copilot requires with every request of any API, or nil for other
// providers.
func copilotHeaders(req *providers.Request) map[string]string {
	if req.Model.Provider != providers.GitHubCopilot {
		return nil
	}
	headers := map[string]string{"X-Initiator": initiator(req.Messages), "Openai-Intent": "conversation-edits"}
	if hasImage(req.Messages) {
		headers["Copilot-Vision-Request"] = "true"
	}
	return headers
}

// initiator returns who caused the request: the user, if the last message is a user's, or else the agent.
func initiator(messages schemas.Messages) string {
	if n := len(messages); n > 0 && messages[n-1].MessageRole() != schemas.RoleUser {
		return "agent"
	}
	return "user"
}

// hasImage reports whether a user's message or a tool result has an image.
func hasImage(messages schemas.Messages) bool {
	for _, m := range messages {
		var content schemas.Contents
		switch m := m.(type) {
		case *schemas.UserMessage:
			content = m.Content
		case *schemas.ToolResultMessage:
			content = m.Content
		}
		for _, block := range content {
			if _, is := block.(schemas.Image); is {
				return true
			}
		}
	}
	return false
}
