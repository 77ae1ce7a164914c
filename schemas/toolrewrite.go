package schemas

// RewriteOp is what an [ArgumentRewrite] does.
type RewriteOp string

// The operations.
const (
	// RewriteRename gives the member To the value of the first member of From that there is, unless To is there. With
	// In it does so in every object of the array In, else in the arguments themselves.
	RewriteRename RewriteOp = "rename"
	// RewriteParse replaces the member To, if it is a string that holds a JSON array or object, by what it holds.
	RewriteParse RewriteOp = "parse"
	// RewriteGather takes the members of From away, if all of them are strings, and appends an object of them to the
	// array To, which it makes if there is none.
	RewriteGather RewriteOp = "gather"
)

// ArgumentRewrite is one step of what is done with a model's arguments before they are checked against a tool's
// parameters: models send names and shapes that they know from other tools. It is data, so that the runner, which
// checks arguments, can do it for a tool that runs elsewhere, in whatever language. Steps follow each other in order;
// one that does not apply changes nothing. From lists names for To, best first, or the members to gather.
type ArgumentRewrite struct {
	Op   RewriteOp `json:"op"`
	From []string  `json:"from,omitempty"`
	To   string    `json:"to"`
	In   string    `json:"in,omitempty"`
}

// RenameArgument is the step that knows an argument under other names.
func RenameArgument(to string, from ...string) ArgumentRewrite {
	return ArgumentRewrite{Op: RewriteRename, From: from, To: to}
}
