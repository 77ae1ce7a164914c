package schemas

// ToolPolicy defines how a session's tools are selected, once per run (docs/tools.md).
type ToolPolicy struct {
	API        string         // of the model, for the form of schemas
	Provider   string         // of the model
	Workspace  string         // whose tools the session has; empty is no workspace
	Channel    string         // workspace of the client that the session belongs to, whose tools are added
	Sandbox    *SandboxPolicy // tools that workers of another workspace serve
	Extensions []string       // the runner's own tools that the session has
	Chosen     []string       // by set_tools, in that order; nil is every tool
	Allowed    []string       // by the profile; nil is every tool
	Scopes     []string       // granted; "*" is every scope
	TimeoutMs  int64          // time limit of calls of tools without one; 0 is none
	// ChannelOnly leaves the session only the tools of the client: none of its workspace, and none of the runner.
	ChannelOnly bool
}

// The runner's own tools. Models call them as they call other tools.
const (
	ToolSessionBranch  = "session_branch"
	ToolAgentInterrupt = "agent_interrupt"
	ToolAgent          = "agent"
)

// MaxBranchesOfRun is how many copies of its session a run may make by [ToolSessionBranch]: each copy stores the
// transcript once more.
const MaxBranchesOfRun = 16

// ExtensionTools lists the names of the runner's own tools.
func ExtensionTools() []string { return []string{ToolSessionBranch, ToolAgentInterrupt, ToolAgent} }

// DefaultExtensionTools lists the runner's tools that sessions have by default. They are served as other tools are;
// [ToolAgent] is not, because its calls start sessions.
func DefaultExtensionTools() []string { return []string{ToolSessionBranch, ToolAgentInterrupt} }
