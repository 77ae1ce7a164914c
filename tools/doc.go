// Package tools says what a tool is. The tools that come with loopbus are its subpackages, one each: read, write, edit,
// grep, find, ls and bash. Package mcp makes tools of MCP servers, and MCP servers of tools.
// Package worker serves tools on NATS; the rest knows nothing of a bus.
//
// A tool is a definition, which models and runners see, and a function, which runs where the tool's worker runs. The
// function reports every failure as an error: [Tool.Run] makes the result a model is shown of it, also of a panic.
//
// [Typed] makes a tool of a struct for its parameters and a function. Serve of package worker serves it, and an agent
// in memory (loop/agent) takes it as it is.
//
// Tools that touch files go through package workspace, which keeps them below a root directory, symbolic links
// included. The bash tool runs any command with the rights of its process, unless it is given a sandbox: a root
// does not confine it, only its surroundings (a sandbox, a container, an own user) can.
package tools
