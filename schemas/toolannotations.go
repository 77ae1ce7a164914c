package schemas

// ToolAnnotations are hints about a tool as the Model Context Protocol has them, for people and for clients that decide
// whom to ask before a call. They promise nothing: only a definition's effect class says what may be done with a call
// whose worker died. A hint that is absent says nothing.
type ToolAnnotations struct {
	Title           string `json:"title,omitempty"`           // for people
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty"`    // it changes nothing
	DestructiveHint *bool  `json:"destructiveHint,omitempty"` // what it changes may be lost
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`  // again with the same arguments, it changes nothing more
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`   // it reaches out to what nobody here controls
}

// EffectClass is the tool's effect class. Where the definition names none, it is what the annotations come to:
// read_only or idempotent where they say so, and else none, which counts as [EffectUnsafe].
func (d ToolDefinition) EffectClass() Effect {
	a := d.Annotations
	switch {
	case d.Effect != "" || a == nil:
		return d.Effect
	case isTrue(a.ReadOnlyHint):
		return EffectReadOnly
	case isTrue(a.IdempotentHint):
		return EffectIdempotent
	}
	return ""
}

func isTrue(hint *bool) bool { return hint != nil && *hint }
