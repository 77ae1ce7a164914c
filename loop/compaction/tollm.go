package compaction

import (
	"fmt"

	"github.com/loopbus/loopbus/schemas"
)

// ToLLM converts messages to ones that models know. Messages of users, models and tools stay as they are. A user's own
// commands, an application's messages and summaries become user messages, each with its frame. Messages of other roles,
// and commands that the user kept out of the context, are dropped.
func ToLLM(messages []schemas.Message) []schemas.Message {
	known := make([]schemas.Message, 0, len(messages))
	for _, m := range messages {
		switch m := m.(type) {
		case *schemas.UserMessage, *schemas.AssistantMessage, *schemas.ToolResultMessage:
			known = append(known, m)
		case *schemas.CustomMessage:
			if u := asUser(m); u != nil {
				known = append(known, u)
			}
		}
	}
	return known
}

func asUser(m *schemas.CustomMessage) *schemas.UserMessage {
	f := fieldsOf(m)
	switch m.Role {
	case RoleCustom:
		return &schemas.UserMessage{Content: f.contents(), Timestamp: f.Timestamp}
	case RoleBashExecution:
		if f.ExcludeFromContext {
			return nil
		}
		return f.user(f.command())
	case RoleBranchSummary:
		return f.user("The following is a summary of a branch that this conversation came back from:\n\n<summary>\n" +
			f.Summary + "</summary>")
	case RoleCompactionSummary:
		return f.user("The conversation history before this point was compacted into the following summary:\n\n<summary>\n" +
			f.Summary + "\n</summary>")
	}
	return nil
}

func (f fields) user(text string) *schemas.UserMessage {
	return &schemas.UserMessage{Content: schemas.Contents{schemas.Text{Text: text}}, Timestamp: f.Timestamp}
}

// command returns the text for a command that the user ran.
func (f fields) command() string {
	text := "Ran `" + f.Command + "`\n"
	if f.Output == "" {
		text += "(no output)"
	} else {
		text += "```\n" + f.Output + "\n```"
	}
	switch {
	case f.Cancelled:
		text += "\n\n(command cancelled)"
	case f.ExitCode != nil && *f.ExitCode != 0:
		text += fmt.Sprintf("\n\nCommand exited with code %d", *f.ExitCode)
	}
	if f.Truncated && f.FullOutputPath != "" {
		text += fmt.Sprintf("\n\n[Output truncated. Full output: %s]", f.FullOutputPath)
	}
	return text
}
