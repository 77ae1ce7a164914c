package schemas

// WithoutSignatures returns messages whose replies have no signatures, no hidden thinking and no id of a response. A
// vendor takes what has them for its own words. So they may come from a model alone, and not with a client's messages.
func (ms Messages) WithoutSignatures() Messages {
	out := make(Messages, len(ms))
	for i, m := range ms {
		if reply, ok := m.(*AssistantMessage); ok {
			m = reply.withoutSignatures()
		}
		out[i] = m
	}
	return out
}

func (m *AssistantMessage) withoutSignatures() *AssistantMessage {
	plain := *m
	plain.ResponseID = ""
	plain.Content = make(Contents, 0, len(m.Content))
	for _, c := range m.Content {
		switch b := c.(type) {
		case Text:
			b.TextSignature = ""
			c = b
		case Thinking:
			if b.Redacted {
				continue
			}
			b.ThinkingSignature = ""
			c = b
		case ToolCall:
			b.ThoughtSignature = ""
			c = b
		}
		plain.Content = append(plain.Content, c)
	}
	return &plain
}
