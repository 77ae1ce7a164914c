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

// RewriteOp is the operation of an [ArgumentRewrite].
type RewriteOp string

// The operations.
const (
	// RewriteRename gives the member To the value of the first existing member of From, unless To exists. If In is set,
	// it does so in every object of the array In, else in the arguments themselves.
	RewriteRename RewriteOp = "rename"
	// RewriteParse replaces the member To, if it is a string that contains a JSON array or object, by that value.
	RewriteParse RewriteOp = "parse"
	// RewriteGather removes the members of From, if all of them are strings, and appends an object of them to the array
	// To, which it creates if there is none.
	RewriteGather RewriteOp = "gather"
)

// ArgumentRewrite is one step that changes a model's arguments before they are validated by a tool's parameters: models
// use names and shapes that they know from other tools. A step is data, so that the runner, which validates arguments,
// can apply it for a tool that runs elsewhere, in any language. Steps are applied in order; one that does not apply
// changes nothing. From lists names for To, in order of preference, or the members to gather.
type ArgumentRewrite struct {
	Op   RewriteOp `json:"op"`
	From []string  `json:"from,omitempty"`
	To   string    `json:"to"`
	In   string    `json:"in,omitempty"`
}

// RenameArgument returns the step that accepts an argument under other names.
func RenameArgument(to string, from ...string) ArgumentRewrite {
	return ArgumentRewrite{Op: RewriteRename, From: from, To: to}
}
