package transport

import (
	"github.com/loopbus/loopbus/providers"
	"github.com/loopbus/loopbus/schemas"
)

// copilotHeaders are what GitHub Copilot wants to know of a request, whichever API it speaks; nil for other providers.
func copilotHeaders(req *providers.Request) map[string]string {
	if req.Model.Provider != providers.GitHubCopilot {
		return nil
	}
	headers := map[string]string{"X-Initiator": initiator(req.Messages), "Openai-Intent": "conversation-edits"}
	if shows(req.Messages) {
		headers["Copilot-Vision-Request"] = "true"
	}
	return headers
}

// initiator says who asks: the user, or the agent, which goes on by itself.
func initiator(messages schemas.Messages) string {
	if n := len(messages); n > 0 && messages[n-1].MessageRole() != schemas.RoleUser {
		return "agent"
	}
	return "user"
}

// shows reports whether a user or a tool shows an image.
func shows(messages schemas.Messages) bool {
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
