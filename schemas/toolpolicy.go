package schemas

// ToolPolicy is what a session's tools are put together by, once per run (docs/tools.md).
type ToolPolicy struct {
	API        string         // of the model, for the form of schemas
	Provider   string         // of the model
	Workspace  string         // whose tools the session has; empty is that of none
	Channel    string         // the client that the session belongs to: a workspace whose tools come on top
	Sandbox    *SandboxPolicy // tools to be taken from elsewhere
	Extensions []string       // of the runner's own tools, these
	Chosen     []string       // by set_tools, in that order; nil is every tool
	Allowed    []string       // by the profile; nil is every tool
	Scopes     []string       // granted; "*" is every scope
	TimeoutMs  int64          // of calls of tools that set no limit; 0 is none
	// ChannelOnly leaves the session nothing but the tools of the client: none of its workspace, and none of the runner.
	ChannelOnly bool
}

// The runner's own tools. Models call them as they do others.
const (
	ToolSessionBranch  = "session_branch"
	ToolAgentInterrupt = "agent_interrupt"
	ToolAgent          = "agent"
)

// ExtensionTools lists the names of the runner's own tools.
func ExtensionTools() []string { return []string{ToolSessionBranch, ToolAgentInterrupt, ToolAgent} }

// DefaultExtensionTools lists those that sessions have where nobody says anything. They are served as others are;
// [ToolAgent] is not, its calls begin sessions.
func DefaultExtensionTools() []string { return []string{ToolSessionBranch, ToolAgentInterrupt} }
