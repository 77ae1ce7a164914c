package schemas

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
