// Package mcp connects tools with the Model Context Protocol, in both directions, by the official SDK.
//
// A [Bridge] is a client: it keeps a session to an MCP server, a process or a URL, and makes the server's tools tools
// of ours. A [Gateway] is a server: it offers tools of ours to any MCP client and hands the calls to whoever can
// execute them. Neither knows of a bus.
//
// # A bridge and its server
//
// A server that dies is started again, or connected to again, after a while that grows with every failure. Its tools
// stay what they are meanwhile; calls of them are errors that say so. A call that was under way is an error that says
// that its outcome is unknown: nobody asks a server twice. When the server changes its list of tools, so does the
// bridge.
//
// # Trust
//
// A server's description of its tools is what models get, and its annotations decide whether a call is executed
// again after a crash: whoever configures a server trusts it that far. It is not trusted with the environment: a
// process gets what is configured and a few variables that are harmless, and headers of a URL go to its host only.
// Values from the environment, of variables and of headers are taken out of everything that is logged or reported.
//
// What a server sends is bounded: messages to 16 MiB, lists to [BridgeOptions].MaxTools, descriptions and schemas to
// what can be announced. A result is cut by the worker that answers with it.
package mcp
