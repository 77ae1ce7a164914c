// Package tools defines what a tool is. Each built-in tool is a subpackage: read, write, edit, grep, find, ls and
// bash. Package mcp converts between tools and MCP servers in both directions. Package worker serves tools on NATS;
// the other packages do not know the bus.
//
// A tool is a definition, which models and runners see, and a function, which runs where the tool's worker runs. The
// function reports every failure as an error; [Tool.Run] turns an error or a panic into the result that a model sees.
//
// [Typed] makes a tool from a struct for its parameters and a function. Package worker serves it with Serve, and an
// in-memory agent (loop/agent) uses it directly.
//
// Tools that access files use package workspace, which confines them to a root directory, also through symbolic
// links. The bash tool runs any command with the rights of its process: the root does not confine it. Use its
// sandbox, a container, or a separate user.
package tools
