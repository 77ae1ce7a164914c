package schemas

// ToolAnnotations are hints about a tool, as in the Model Context Protocol, for people and for clients that decide
// which calls need a confirmation. They are no guarantee: only a definition's effect class decides whether a call is
// executed again after its worker died. An absent hint means nothing.
type ToolAnnotations struct {
	Title           string `json:"title,omitempty"`           // for people
	ReadOnlyHint    *bool  `json:"readOnlyHint,omitempty"`    // it changes nothing
	DestructiveHint *bool  `json:"destructiveHint,omitempty"` // what it changes may be lost
	IdempotentHint  *bool  `json:"idempotentHint,omitempty"`  // again with the same arguments, it changes nothing more
	OpenWorldHint   *bool  `json:"openWorldHint,omitempty"`   // it reaches out to what nobody here controls
}

// EffectClass returns the tool's effect class. If the definition names none, the annotations decide: read_only or
// idempotent if they contain that hint, else none, which counts as [EffectUnsafe].
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
