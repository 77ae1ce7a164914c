// Package anylanguage tests the examples of docs/examples, which are tools in several languages written from
// docs/tool-protocol.md, and the JavaScript client. The examples and the runner are separate processes.
package anylanguage
