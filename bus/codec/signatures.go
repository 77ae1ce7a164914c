package codec

import "github.com/loopbus/loopbus/schemas"

// removeSignatures removes from the replies among the messages of an input their signatures, their hidden thinking and
// the ids of responses. A vendor takes what has them for its own words, so they may come from a model alone, and not
// with a client's messages.
func removeSignatures(payload schemas.CommandData) {
	var in *schemas.Input
	switch data := payload.(type) {
	case *schemas.Prompt:
		in = &data.Input
	case *schemas.Steer:
		in = &data.Input
	case *schemas.FollowUp:
		in = &data.Input
	default:
		return
	}
	for _, m := range in.Messages {
		if reply, ok := m.(*schemas.AssistantMessage); ok {
			reply.ResponseID, reply.Content = "", unsigned(reply.Content)
		}
	}
}

func unsigned(content schemas.Contents) schemas.Contents {
	plain := make(schemas.Contents, 0, len(content))
	for _, c := range content {
		switch b := c.(type) {
		case schemas.Text:
			b.TextSignature = ""
			c = b
		case schemas.Thinking:
			if b.Redacted {
				continue
			}
			b.ThinkingSignature = ""
			c = b
		case schemas.ToolCall:
			b.ThoughtSignature = ""
			c = b
		}
		plain = append(plain, c)
	}
	return plain
}
