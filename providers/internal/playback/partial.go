package playback

import "github.com/loopbus/loopbus/schemas"

// part is the streamed part of a block.
type part struct {
	text     []byte
	thinking bool
	call     *schemas.ToolCall
}

// streamed returns the content that the first n steps streamed, in the order in which the blocks began. It omits a tool
// call that is not complete, because the beginning of its arguments is not valid JSON.
func (r *Reply) streamed(n int, at Place) schemas.Contents {
	var parts []*part
	byIndex := map[int]*part{}
	for i := range r.Steps[:n] {
		e := &r.Steps[i].Event
		if !hasContent(e) {
			continue
		}
		p := byIndex[e.ContentIndex]
		if p == nil {
			p = new(part)
			parts, byIndex[e.ContentIndex] = append(parts, p), p
		}
		p.add(e, at)
	}
	content := make(schemas.Contents, 0, len(parts))
	for _, p := range parts {
		content = append(content, p.block())
	}
	return content
}

// hasContent reports whether e contributes to the content of an aborted reply.
func hasContent(e *schemas.StreamEvent) bool {
	switch e.Type {
	case schemas.StreamTextDelta, schemas.StreamTextEnd, schemas.StreamThinkingDelta, schemas.StreamThinkingEnd:
		return true
	case schemas.StreamToolCallEnd:
		return e.ToolCall != nil
	}
	return false
}

func (p *part) add(e *schemas.StreamEvent, at Place) {
	switch e.Type {
	case schemas.StreamToolCallEnd:
		p.call = at.identify(e.ToolCall, e.ContentIndex)
	case schemas.StreamTextEnd, schemas.StreamThinkingEnd:
		p.text = append(p.text[:0], e.Content...)
	default:
		p.text = append(p.text, e.Delta...)
	}
	p.thinking = e.Type == schemas.StreamThinkingDelta || e.Type == schemas.StreamThinkingEnd
}

func (p *part) block() schemas.Content {
	switch {
	case p.call != nil:
		return *p.call
	case p.thinking:
		return schemas.Thinking{Thinking: string(p.text)}
	}
	return schemas.Text{Text: string(p.text)}
}
