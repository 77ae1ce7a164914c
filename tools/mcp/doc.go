// Package mcp connects tools with the Model Context Protocol, in both directions, using the official SDK.
//
// A [Bridge] is a client: it maintains a session with an MCP server, a process or a URL, and provides the server's
// tools as loopbus tools. A [Gateway] is a server: it offers loopbus tools to any MCP client and passes calls on for
// execution. Neither knows the bus.
//
// # A bridge and its server
//
// A server that dies is restarted, or reconnected to, after a delay that grows with every failure. Its tools stay
// announced in the meantime, and calls of them return an error that says so. A call that was in progress returns an
// error that its outcome is unknown: a bridge never sends a call twice. A server that leaves three pings without an
// answer counts as dead, unless it may be at work: see [BridgeOptions].KeepAlive. When the server changes its list of
// tools, the bridge does too.
//
// # Trust
//
// Models receive a server's description of its tools, and its annotations decide whether a call is executed again
// after a crash: configuring a server means trusting it that far. It is not trusted with the environment: a process
// receives what is configured and a few harmless variables, and headers of a URL go to its host only. Values from the
// environment, of variables and of headers are removed from everything that is logged or reported.
//
// What a server sends is bounded: messages to 16 MiB, lists to [BridgeOptions].MaxTools, descriptions and schemas to
// what can be announced. The worker that returns a result cuts it.
package mcp
